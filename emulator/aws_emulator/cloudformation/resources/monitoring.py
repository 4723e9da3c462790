"""Monitoring resources: alarms, their topics, budgets, and dashboards."""

from typing import Any

from aws_emulator.cloudformation.resources.kind import Clients, Made, Properties, delete_on_failure


class Topic:
    """AWS::SNS::Topic with its subscriptions; no message is sent."""

    fixed = frozenset[str]()

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    def create(self, name: str, wanted: Properties) -> Made:
        client = self._clients("sns")
        arn = client.create_topic(Name=name)["TopicArn"]
        with delete_on_failure(self, Made(arn, {"TopicArn": arn, "TopicName": arn.rpartition(":")[2]}), wanted) as made:
            self.update(made, {}, wanted)
        return made

    def update(self, made: Made, before: Properties, after: Properties) -> None:
        """See `Kind`."""
        client = self._clients("sns")
        there = {
            (found["Protocol"], found["Endpoint"]): found["SubscriptionArn"]
            for page in client.get_paginator("list_subscriptions_by_topic").paginate(TopicArn=made.id)
            for found in page["Subscriptions"]
        }
        old, new = _subscriptions(before), _subscriptions(after)
        for gone in (old - new) & there.keys():
            client.unsubscribe(SubscriptionArn=there[gone])
        for protocol, endpoint in sorted(new - there.keys()):
            client.subscribe(TopicArn=made.id, Protocol=protocol, Endpoint=endpoint)

    def delete(self, made: Made, properties: Properties) -> None:
        self._clients("sns").delete_topic(TopicArn=made.id)


def _subscriptions(topic: Properties) -> set[tuple[str, str]]:
    return {(wanted["Protocol"], wanted["Endpoint"]) for wanted in topic.get("Subscription", [])}


class Alarm:
    """AWS::CloudWatch::Alarm."""

    fixed = frozenset[str]()

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    def create(self, name: str, wanted: Properties) -> Made:
        client = self._clients("cloudwatch")
        client.put_metric_alarm(**{**_typed(wanted), "AlarmName": name})
        arn = client.describe_alarms(AlarmNames=[name])["MetricAlarms"][0]["AlarmArn"]
        return Made(name, {"Arn": arn})

    def update(self, made: Made, before: Properties, after: Properties) -> None:
        self._clients("cloudwatch").put_metric_alarm(**{**_typed(after), "AlarmName": made.id})

    def delete(self, made: Made, properties: Properties) -> None:
        self._clients("cloudwatch").delete_alarms(AlarmNames=[made.id])


def _typed(wanted: Properties) -> dict[str, Any]:
    """An alarm's properties with the threshold as a number, because parameters are text."""
    return {**wanted, "Threshold": float(wanted["Threshold"])}


class Budget:
    """AWS::Budgets::Budget with its notifications; nothing is billed, so none is sent."""

    fixed = frozenset({"NotificationsWithSubscribers"})  # and a budget's name, which is unique

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    def create(self, name: str, wanted: Properties) -> Made:
        """See `Kind`."""
        budget = {"BudgetName": name, **wanted["Budget"]}
        notifications = wanted.get("NotificationsWithSubscribers", [])
        self._clients("budgets").create_budget(
            AccountId=self._account,
            # Parameters are text, and so is an amount.
            Budget={**budget, "BudgetLimit": {key: str(value) for key, value in budget["BudgetLimit"].items()}},
            NotificationsWithSubscribers=notifications,
        )
        return Made(budget["BudgetName"])

    def update(self, made: Made, before: Properties, after: Properties) -> None:
        self.delete(made, before)  # moto has no UpdateBudget
        self.create(made.id, after)

    def delete(self, made: Made, properties: Properties) -> None:
        self._clients("budgets").delete_budget(AccountId=self._account, BudgetName=made.id)

    @property
    def _account(self) -> str:
        return str(self._clients("sts").get_caller_identity()["Account"])


class Dashboard:
    """AWS::CloudWatch::Dashboard."""

    fixed = frozenset({"DashboardName"})

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    def create(self, name: str, wanted: Properties) -> Made:
        made = Made(wanted.get("DashboardName", name))
        self.update(made, {}, wanted)
        return made

    def update(self, made: Made, before: Properties, after: Properties) -> None:
        self._clients("cloudwatch").put_dashboard(DashboardName=made.id, DashboardBody=after["DashboardBody"])

    def delete(self, made: Made, properties: Properties) -> None:
        self._clients("cloudwatch").delete_dashboards(DashboardNames=[made.id])
