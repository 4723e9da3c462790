"""A run in an emulated AWS account: the deployed template, permissions and Lambda's runtime, on this machine, with the
weights of a local run. Needs the extra `emulated`."""

import json

import marless


def main(rounds: int = 5) -> None:
    """Trains in the emulated account and here, compares the weights, and prints the bill."""
    settings = {"seed": 1, "stop": {"rounds": rounds}, "evaluation": {"final_episodes": 64}}
    cloud = marless.train(settings, backend="emulated", quiet=True)
    here = marless.train(settings, quiet=True)
    assert cloud.summary.weights_sha256 == here.summary.weights_sha256
    print("same weights:", cloud.summary.weights_sha256[:16])
    for line in json.loads((cloud.path / "bill.json").read_text(encoding="utf-8"))["lines"]:
        if float(line["dollars"]):
            print(f"  {line['name']:32} ${float(line['dollars']):.7f}")


if __name__ == "__main__":
    main()
