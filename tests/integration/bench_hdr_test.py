# SPDX-License-Identifier: Apache-2.0
"""The HdrHistogram logs of bench: decoded here by the specification of the format, and by HdrHistogram's own reader for
Python (hdrhistogram of PyPI), which is skipped where it is not installed. Both must have what --json says."""
import base64
import json
import os
import struct
import subprocess
import sys
import tempfile
import zlib

COMMAND, DOMAIN = os.path.abspath(sys.argv[1]), sys.argv[2]
TURNS = 120


def bench(directory, *options):
    log = os.path.join(directory, 'log.hlog')
    environment = dict(os.environ, TURNPHASE_TEST_DOMAIN='endings')
    done = subprocess.run([COMMAND, 'bench', '--load', DOMAIN, '--no-memory', '--turns', str(TURNS), '--warm-up', '5',
                           '--json', '--hdr', log, *options],
                          capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    return log, json.loads(done.stdout)


def expected(report):
    """The distribution of each tag, as --json has it."""
    turn = report['turn']
    rows = {None: turn['response_ns'], 'turn': turn['duration_ns']} if report['settings']['rate'] else \
        {None: turn['duration_ns']}
    for part in ('model', 'tools'):
        rows[part] = report['turn'].get(part + '_ns', {'count': 0})
    for tool in report['turn'].get('tools', []):
        rows['tools/' + tool['tool']] = tool['duration_ns']
    for phase in report['phases']:
        rows[phase['phase']] = phase['duration_ns']
        for run in phase['subscriptions']:
            rows[f"{phase['phase']}/{run['subscription']}"] = run['duration_ns']
    return {tag: figures for tag, figures in rows.items() if figures['count']}


def near(value, truth):
    return abs(value - truth) <= truth / 50 + 1  # both have two significant digits


def read_zigzag(data, at):
    number = 0
    for index in range(9):
        byte = data[at]
        at += 1
        if index == 8:
            number |= byte << 56
            break
        number |= (byte & 127) << (7 * index)
        if byte < 128:
            break
    return (number >> 1) ^ -(number & 1), at


def decode(text):
    """The values of a histogram with two digits, each with its count."""
    raw = base64.b64decode(text, validate=True)
    cookie, size = struct.unpack('>II', raw[:8])
    assert cookie == 0x1c849314 and size == len(raw) - 8, (hex(cookie), size)
    data = zlib.decompress(raw[8:])
    cookie, size, offset, digits, least, greatest, ratio = struct.unpack('>IIIIqqd', data[:40])
    assert (cookie, size, offset, digits, least, ratio) == (0x1c849313, len(data) - 40, 0, 2, 1, 1.0)
    at, index, counts = 40, 0, []
    while at < len(data):
        count, at = read_zigzag(data, at)
        if count < 0:
            index -= count
            continue
        assert count > 0
        shift = max(0, index // 128 - 1)
        value = (index - 128 * shift) << shift
        counts.append((value, value + (1 << shift) - 1, count))
        index += 1
    assert counts[-1][0] <= greatest
    return counts


def at_share(counts, share):
    rank, seen = share * sum(count for _, _, count in counts), 0
    for _, last, count in counts:
        seen += count
        if seen >= rank:
            return last


def log_follows_the_specification(directory):
    script = os.path.join(directory, 'script.yaml')
    with open(script, 'w') as file:
        file.write('responses: [{tool_calls: [{id: a, name: files_list, arguments: {path: .}}]}, {text: Done.}]\n')
    for options in [(), ('--rate', '20000'), ('--concurrency', '8'), ('--script', script, '--files', directory)]:
        path, report = bench(directory, *options)
        lines = open(path).read().splitlines()
        assert lines[1] == '#[Histogram log format version 1.3]' and lines[2].startswith('#[StartTime: ')
        assert lines[3].startswith('"StartTimestamp","Interval_Length"')
        rows = expected(report)
        for line in lines[4:]:
            tag, line = line[4:].split(',', 1) if line.startswith('Tag=') else (None, line)
            begin, length, greatest, text = line.split(',')
            figures, counts = rows.pop(tag), decode(text)
            assert float(begin) == 0 and abs(float(length) - report['turn']['elapsed_ns'] / 1e9) < 0.001
            assert abs(float(greatest) - figures['max'] / 1e6) < 1e-6
            assert sum(count for _, _, count in counts) == figures['count']
            assert counts[-1][0] <= figures['max'] <= counts[-1][1]
            assert near(at_share(counts, 0.5), figures['median']) and near(at_share(counts, 0.99), figures['p99'])
        assert not rows, f'not in the log: {list(rows)}'


def reader_of_hdrhistogram_has_the_same(directory):
    try:
        from hdrh.histogram import HdrHistogram
        from hdrh.log import HistogramLogReader
    except ImportError:
        return 'hdrhistogram of PyPI is not installed'
    path, report = bench(directory, '--rate', '20000')
    rows = expected(report)
    reader = HistogramLogReader(path, HdrHistogram(1, 1 << 62, 2))
    while (histogram := reader.get_next_interval_histogram()) is not None:
        figures = rows.pop(histogram.get_tag())
        assert histogram.get_total_count() == figures['count']
        assert near(histogram.get_max_value(), figures['max'])
        assert near(histogram.get_value_at_percentile(50), figures['median'])
        assert near(histogram.get_value_at_percentile(99), figures['p99'])
    assert not rows, f'not read: {list(rows)}'
    return None


def log_that_cannot_be_written_is_an_error(directory):
    done = subprocess.run([COMMAND, 'bench', '--load', DOMAIN, '--no-memory', '--turns', '3', '--hdr',
                           os.path.join(directory, 'none/log')], capture_output=True, text=True,
                          env=dict(os.environ, TURNPHASE_TEST_DOMAIN='endings'), timeout=120)
    assert done.returncode == 74 and 'none/log: No such file or directory' in done.stderr, done.stderr


CASES = [log_follows_the_specification, reader_of_hdrhistogram_has_the_same, log_that_cannot_be_written_is_an_error]


def main():
    print(f'1..{len(CASES)}')
    failed = False
    for number, case in enumerate(CASES, 1):
        with tempfile.TemporaryDirectory() as directory:
            try:
                skip = case(directory)
                print(f'ok {number} - {case.__name__}' + (f' # SKIP {skip}' if skip else ''), flush=True)
            except Exception as error:  # every failure is the case's
                failed = True
                print(f'not ok {number} - {case.__name__}: {error!r}', flush=True)
    return failed


if __name__ == '__main__':
    sys.exit(main())
