"""A program that answers lines, with lines too many, as its plan in JSON says: python line_judge.py PLAN

The plan has these keys. Each may be missing. A line is [seconds before it, text].

* `banner`: lines before the first question is read
* `meanwhile`: lines of another thread, from the start on
* `before`, `after`: lines around each answer
* `later`: lines of another thread, from each answer on
* `answers`: "line" (default), "first" for the first question alone, "whole" for the whole input at once
* `until`: a line behind each answer
* `form`: "plain" (default), "tagged", or "pinged". A pinged program answers "sync" by "synced"
* `crash`: it ends with status 3 instead of its first answer
* `input`: it reads by `input()`, and so ends with status 1
"""

import json
import sys
import threading
import time

PLAN = json.loads(sys.argv[1])


def say(lines):
    for seconds, text in lines:
        time.sleep(seconds)
        print(text, flush=True)


def meanwhile(lines):
    threading.Thread(target=say, args=(lines,), daemon=PLAN.get("daemon", False)).start()


def questions():
    if PLAN.get("answers") == "whole":
        yield sys.stdin.read()
    elif PLAN.get("input"):
        while True:
            yield input()
    else:
        for line in sys.stdin:
            yield line
            if PLAN.get("answers") == "first":
                return


def main():
    meanwhile(PLAN.get("meanwhile", []))
    say(PLAN.get("banner", []))
    for line in questions():
        tag, question = "", line.removesuffix("\n")
        if PLAN.get("form") == "pinged" and question == "sync":
            print("synced", flush=True)
            continue
        if PLAN.get("form") == "tagged":
            word, _, question = question.partition(" ")
            tag = f"{word} "
        if PLAN.get("crash"):
            sys.exit(3)
        say(PLAN.get("before", []))
        print(f"{tag}answer to {question}", flush=True)
        say([[0.0, PLAN["until"]]] if "until" in PLAN else [])
        meanwhile(PLAN.get("later", []))
        say(PLAN.get("after", []))


main()
