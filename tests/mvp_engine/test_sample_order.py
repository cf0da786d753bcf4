from itertools import chain, islice

import pytest

from mvp_engine.engine.data import SampleOrder


def batches(count, *, length=10, batch_size=3, rank=0, ranks=1, start=0, seed=0):
    order = SampleOrder(length, batch_size, seed, rank, ranks)
    order.seek(start)
    return list(islice(order, count))


def test_each_epoch_is_a_permutation_of_its_own():
    samples = list(chain.from_iterable(batches(10)))
    first, second, third = samples[:10], samples[10:20], samples[20:]
    assert sorted(first) == sorted(second) == sorted(third) == list(range(10))
    assert first != second != third
    assert list(chain.from_iterable(batches(10, seed=1))) != samples


def test_ranks_take_turns_on_one_sequence():
    alone = batches(6)
    assert batches(3, rank=0, ranks=2) == alone[0::2]
    assert batches(3, rank=1, ranks=2) == alone[1::2]


def test_seek_goes_on_where_all_ranks_had_read():
    whole = batches(8, rank=1, ranks=2)
    assert batches(5, rank=1, ranks=2, start=3 * 3 * 2) == whole[3:]


def test_a_dataset_smaller_than_a_batch_is_read_around():
    assert [sorted(batch) for batch in batches(2, length=2, batch_size=4)] == [[0, 0, 1, 1]] * 2


def test_an_empty_dataset_is_told():
    with pytest.raises(ValueError, match=r"^the dataset is empty$"):
        SampleOrder(0, 1, 0, 0, 1)
