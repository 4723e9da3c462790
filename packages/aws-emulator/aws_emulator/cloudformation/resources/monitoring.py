"""Monitoring resources: alarms, their topics, budgets, and dashboards."""

from typing import Any

from aws_emulator.cloudformation.resources.kind import Clients, PhysicalResource, Properties, delete_on_failure


class Topic:
    """AWS::SNS::Topic with its subscriptions. No message is sent."""

    create_only = frozenset[str]()

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    def create(self, name: str, properties: Properties) -> PhysicalResource:
        client = self._clients("sns")
        arn = client.create_topic(Name=name)["TopicArn"]
        with delete_on_failure(
            self, PhysicalResource(arn, {"TopicArn": arn, "TopicName": arn.rpartition(":")[2]}), properties
        ) as physical:
            self.update(physical, {}, properties)
        return physical

    def update(self, physical: PhysicalResource, before: Properties, after: Properties) -> None:
        """See `Kind`."""
        client = self._clients("sns")
        there = {
            (subscription["Protocol"], subscription["Endpoint"]): subscription["SubscriptionArn"]
            for page in client.get_paginator("list_subscriptions_by_topic").paginate(TopicArn=physical.id)
            for subscription in page["Subscriptions"]
        }
        old, new = _subscriptions(before), _subscriptions(after)
        for removal in (old - new) & there.keys():
            client.unsubscribe(SubscriptionArn=there[removal])
        for protocol, endpoint in sorted(new - there.keys()):
            client.subscribe(TopicArn=physical.id, Protocol=protocol, Endpoint=endpoint)

    def delete(self, physical: PhysicalResource, properties: Properties) -> None:
        self._clients("sns").delete_topic(TopicArn=physical.id)


def _subscriptions(topic: Properties) -> set[tuple[str, str]]:
    return {(subscription["Protocol"], subscription["Endpoint"]) for subscription in topic.get("Subscription", [])}


class Alarm:
    """AWS::CloudWatch::Alarm."""

    create_only = frozenset[str]()

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    def create(self, name: str, properties: Properties) -> PhysicalResource:
        client = self._clients("cloudwatch")
        client.put_metric_alarm(**{**_alarm_settings(properties), "AlarmName": name})
        arn = client.describe_alarms(AlarmNames=[name])["MetricAlarms"][0]["AlarmArn"]
        return PhysicalResource(name, {"Arn": arn})

    def update(self, physical: PhysicalResource, before: Properties, after: Properties) -> None:
        self._clients("cloudwatch").put_metric_alarm(**{**_alarm_settings(after), "AlarmName": physical.id})

    def delete(self, physical: PhysicalResource, properties: Properties) -> None:
        self._clients("cloudwatch").delete_alarms(AlarmNames=[physical.id])


def _alarm_settings(properties: Properties) -> dict[str, Any]:
    """An alarm's properties with the threshold as a number, because parameters are text."""
    return {**properties, "Threshold": float(properties["Threshold"])}


class Budget:
    """AWS::Budgets::Budget with its notifications. Without bills, they are never sent."""

    create_only = frozenset({"NotificationsWithSubscribers"})  # and a budget's name, which is unique

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    def create(self, name: str, properties: Properties) -> PhysicalResource:
        """See `Kind`."""
        budget = {"BudgetName": name, **properties["Budget"]}
        notifications = properties.get("NotificationsWithSubscribers", [])
        self._clients("budgets").create_budget(
            AccountId=self._account,
            # Parameters are text, and so is an amount.
            Budget={**budget, "BudgetLimit": {key: str(value) for key, value in budget["BudgetLimit"].items()}},
            NotificationsWithSubscribers=notifications,
        )
        return PhysicalResource(budget["BudgetName"])

    def update(self, physical: PhysicalResource, before: Properties, after: Properties) -> None:
        self.delete(physical, before)  # moto has no UpdateBudget
        self.create(physical.id, after)

    def delete(self, physical: PhysicalResource, properties: Properties) -> None:
        self._clients("budgets").delete_budget(AccountId=self._account, BudgetName=physical.id)

    @property
    def _account(self) -> str:
        return str(self._clients("sts").get_caller_identity()["Account"])


class Dashboard:
    """AWS::CloudWatch::Dashboard."""

    create_only = frozenset({"DashboardName"})

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    def create(self, name: str, properties: Properties) -> PhysicalResource:
        physical = PhysicalResource(properties.get("DashboardName", name))
        self.update(physical, {}, properties)
        return physical

    def update(self, physical: PhysicalResource, before: Properties, after: Properties) -> None:
        self._clients("cloudwatch").put_dashboard(DashboardName=physical.id, DashboardBody=after["DashboardBody"])

    def delete(self, physical: PhysicalResource, properties: Properties) -> None:
        self._clients("cloudwatch").delete_dashboards(DashboardNames=[physical.id])
