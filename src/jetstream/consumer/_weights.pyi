from array import array

def fitting(
    seqs: array[int],
    sizes: array[int],
    prefix: int,
    time_digits: int,
    consumer_seq: int,
    pending: int,
    left: list[int],
    bytes_left: list[int],
) -> tuple[int, list[int]]: ...
