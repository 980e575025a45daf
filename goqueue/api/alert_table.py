"""The rows of the alerts that the broker sends itself."""

from goqueue import errors
from goqueue.api import alerts
from goqueue.api.endpoint import Endpoint
from goqueue.api.http.error_responses import UNWRITABLE

ALERT_ENDPOINTS = (
    Endpoint("GET", "/admin/alerts", alerts.list_alerts, "List the alerts that the broker sends itself, and silences"),
    Endpoint(
        "POST", "/admin/alerts/test", alerts.test, "Send a test message to the webhook", errors=(errors.AlertsOff,),
        answer_example={"delivered": True, "problem": None},
    ),
    Endpoint(
        "POST", "/admin/alerts/silences", alerts.silence, "Send nothing about some alerts for a time", status=201,
        errors=UNWRITABLE,
        example={"code": "disk_filling", "subject": "*", "duration": "2h", "reason": "the disk is being replaced"},
    ),
    Endpoint(
        "DELETE", "/admin/alerts/silences/{silence}", alerts.end_silence, "End a silence",
        errors=(errors.SilenceNotFound, *UNWRITABLE), answer_example={"ended": True, "id": 3},
    ),
)  # fmt: skip
