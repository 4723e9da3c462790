"""Back-ends without a GPU refuse settings that need one, in one line and before a folder or a bill."""

import pytest

from marless.coordinator.config.loading import load
from marless.coordinator.errors import UserError
from marless.runs.inputs.required_packages import require_packages
from marless.studies import cloud_study
from marless.studies.study_file import StudyFile

REFUSED = "^algorithm.device=cuda: functions of AWS have no GPU; set algorithm.device=cpu$"


def test_run_with_remote_functions_has_no_gpu():
    with pytest.raises(UserError, match=REFUSED):
        require_packages(load(None, ["algorithm.device=cuda"]), functions_here=False)
    require_packages(load(None, ["algorithm.engine=torch"]), functions_here=False)


def test_cloud_study_has_no_gpu():
    with pytest.raises(UserError, match=REFUSED):
        cloud_study.refuse(StudyFile(base={"algorithm": {"device": "cuda"}}))
    cloud_study.refuse(StudyFile(base={"algorithm": {"device": "cpu"}}))
    cloud_study.refuse(StudyFile(base={"algorithm": 3}))
