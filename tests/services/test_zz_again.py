import pytest
from tests.services.conftest import s3
from tests.services.test_storage_s3 import TestObjectTree as T
class TestAgain(T):
    @pytest.mark.parametrize("n", range(12))
    def test_race(self, n, location):
        self.test_1_of_racing_trees_one_is_published_and_the_others_are_told(location)
