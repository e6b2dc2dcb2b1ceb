"""Written for a managed training service and for nothing else: argparse, SM_ variables, /opt/ml paths, a requirement of its own."""
import argparse
import json
import os

import tinyreq  # from requirements.txt

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--optimizer", type=str, default="sgd")
    parser.add_argument("--hosts", type=list, default=json.loads(os.environ["SM_HOSTS"]))
    parser.add_argument("--current-host", type=str, default=os.environ["SM_CURRENT_HOST"])
    parser.add_argument("--num-gpus", type=int, default=os.environ["SM_NUM_GPUS"])
    parser.add_argument("--model-dir", type=str, default=os.environ["SM_MODEL_DIR"])
    parser.add_argument("--train", type=str, default=os.environ["SM_CHANNEL_TRAIN"])
    parser.add_argument("--output-data-dir", type=str, default=os.environ["SM_OUTPUT_DATA_DIR"])
    args = parser.parse_args()

    hyperparameters = json.loads(os.environ["SM_HPS"])
    assert hyperparameters["epochs"] == args.epochs, hyperparameters
    assert os.environ["SM_HP_LEARNING-RATE"] == str(args.learning_rate)
    with open(os.path.join(os.environ["SM_INPUT_CONFIG_DIR"], "hyperparameters.json"), encoding="utf-8") as f:
        on_disk = json.load(f)
    assert on_disk["optimizer"] == args.optimizer, on_disk
    with open(os.path.join(os.environ["SM_INPUT_CONFIG_DIR"], "resourceconfig.json"), encoding="utf-8") as f:
        resources = json.load(f)
    assert resources["current_host"] == args.current_host and resources["hosts"] == args.hosts
    rows = [line.split(",") for line in open(os.path.join(args.train, "rows.csv"), encoding="utf-8")]
    total = sum(int(r[1]) for r in rows)
    for epoch in range(args.epochs):
        print(f"epoch {epoch} train_loss: {1.0 / (epoch + 1):.4f};", flush=True)
    os.makedirs(args.output_data_dir, exist_ok=True)
    with open(os.path.join(args.output_data_dir, "report.txt"), "w", encoding="utf-8") as f:
        f.write(f"{tinyreq.ANSWER}\n")
    with open(os.path.join(args.model_dir, "model.json"), "w", encoding="utf-8") as f:
        json.dump({"total": total, "paths": [args.model_dir, args.train]}, f)
    print(f"total={total} answer={tinyreq.ANSWER}", flush=True)
