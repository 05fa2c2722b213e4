# SPDX-License-Identifier: Apache-2.0
"""A collector of OpenTelemetry for tests, which refuses everything that the protocol does not define.

The rules are those of the specification of OTLP 1.x (OTLP/HTTP, "JSON Protobuf Encoding") and of the messages Span,
Resource and KeyValue of opentelemetry-proto: ids in hexadecimal digits, 64-bit integers as decimal texts, enumerations
as numbers, names in lowerCamelCase, no other fields.
"""
import http.server
import json
import re
import threading

SPAN = {'traceId', 'spanId', 'traceState', 'parentSpanId', 'flags', 'name', 'kind', 'startTimeUnixNano',
        'endTimeUnixNano', 'attributes', 'droppedAttributesCount', 'events', 'droppedEventsCount', 'links',
        'droppedLinksCount', 'status'}
VALUES = {'stringValue': str, 'boolValue': bool, 'intValue': str, 'doubleValue': float}


def only(fields, allowed, what):
    assert isinstance(fields, dict) and set(fields) <= set(allowed), (what, set(fields) - set(allowed))


def attributes_of(rows):
    found = {}
    for row in rows:
        only(row, {'key', 'value'}, 'KeyValue')
        assert isinstance(row['key'], str) and row['key'] and row['key'] not in found, row
        (kind, value), = row['value'].items()
        assert isinstance(value, VALUES[kind]), row
        assert kind != 'intValue' or re.fullmatch(r'-?[0-9]{1,19}', value), row
        found[row['key']] = int(value) if kind == 'intValue' else value
    return found


def is_id(text, digits):
    return isinstance(text, str) and re.fullmatch('[0-9a-f]{%d}' % digits, text) and int(text, 16) != 0


def check_span(span):
    only(span, SPAN, 'Span')
    assert is_id(span['traceId'], 32) and is_id(span['spanId'], 16), span
    assert 'parentSpanId' not in span or is_id(span['parentSpanId'], 16), span
    assert isinstance(span['name'], str) and span['name'], span
    assert type(span['kind']) is int and 1 <= span['kind'] <= 5, span
    times = [span['startTimeUnixNano'], span['endTimeUnixNano']]
    assert all(isinstance(time, str) and re.fullmatch('[0-9]{1,20}', time) for time in times), span
    assert int(times[0]) <= int(times[1]), span
    assert type(span.get('flags', 0)) is int, span
    status = span.get('status', {})
    only(status, {'message', 'code'}, 'Status')
    assert type(status.get('code', 0)) is int and 0 <= status.get('code', 0) <= 2, span
    return {**span, 'attributes': attributes_of(span.get('attributes', []))}


def spans_of(body):
    """@return (attributes of the resource, spans) of a request's body."""
    request = json.loads(body)
    only(request, {'resourceSpans'}, 'ExportTraceServiceRequest')
    resource, found = {}, []
    for of_resource in request['resourceSpans']:
        only(of_resource, {'resource', 'scopeSpans', 'schemaUrl'}, 'ResourceSpans')
        only(of_resource['resource'], {'attributes', 'droppedAttributesCount'}, 'Resource')
        resource = attributes_of(of_resource['resource']['attributes'])
        for of_scope in of_resource['scopeSpans']:
            only(of_scope, {'scope', 'spans', 'schemaUrl'}, 'ScopeSpans')
            only(of_scope['scope'], {'name', 'version', 'attributes', 'droppedAttributesCount'}, 'Scope')
            found += [check_span(span) for span in of_scope['spans']]
    return resource, found


class Collector:
    """It refuses requests that do not conform to the protocol, and reports them to the test."""

    def __init__(self):
        self.spans, self.resources, self.wrong, self.headers, self.bodies = [], [], [], [], []
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers['Content-Length']))
                collector.bodies.append(body)
                try:
                    assert self.headers['Content-Type'] == 'application/json', self.headers['Content-Type']
                    resource, spans = spans_of(body)
                    collector.headers.append(self.headers)
                    collector.resources.append(resource)
                    collector.spans += spans
                except Exception as error:  # pylint: disable=broad-except
                    collector.wrong.append(repr(error))
                self.send_response(400 if collector.wrong else 200)
                self.send_header('Content-Length', '2')
                self.end_headers()
                self.wfile.write(b'{}')

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.url = f'http://127.0.0.1:{self.server.server_port}/v1/traces'
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def named(self, name):
        assert not self.wrong, self.wrong
        return [span for span in self.spans if span['name'] == name]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
