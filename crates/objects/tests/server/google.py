"""What of Google Cloud Storage's XML API the store uses, in memory, for tests.

No emulator that can be installed from a registry keeps the condition x-goog-if-generation-match on uploads
of that API, and without it nothing can be tested that matters. This one follows the API's reference:
conditions are checked and objects replaced under one lock, every upload has a new generation.

    google.py PORT BUCKET
"""

import hashlib
import sys
import threading
import urllib.parse
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from xml.sax.saxutils import escape

PAGE = 1000
lock = threading.Lock()
objects = {}  # name: (generation, bytes)
uploads = {}  # id: {part: bytes}
serial = [1_700_000_000_000_000]  # of that order with Google too


def etag(data):
    return f'"{hashlib.md5(data).hexdigest()}"'


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", headers=(), length=None):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def error(self, status, code):
        text = f"<?xml version='1.0'?><Error><Code>{code}</Code></Error>".encode()
        self.answer(status, b"" if self.command == "HEAD" else text)

    def parse(self):
        """Bucket, object and query; None after an error."""
        path, _, query = self.path.partition("?")
        bucket, _, name = path.lstrip("/").partition("/")
        self.query = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
        self.name = urllib.parse.unquote(name)
        length = int(self.headers.get("Content-Length") or 0)
        self.data = self.rfile.read(length)
        if urllib.parse.unquote(bucket) != BUCKET:
            self.error(404, "NoSuchBucket")
            return False
        return True

    def do_PUT(self):
        if not self.parse():
            return
        if "uploadId" in self.query:
            with lock:
                parts = uploads.get(self.query["uploadId"])
                if parts is not None:
                    parts[int(self.query["partNumber"])] = self.data
            return self.answer(200, headers=[("ETag", etag(self.data))]) if parts is not None \
                else self.error(404, "NoSuchUpload")
        self.store(self.data)

    def store(self, data, body=b""):
        wanted = self.headers.get("x-goog-if-generation-match")
        with lock:
            there = objects.get(self.name, (0, b""))[0]
            if wanted is not None and int(wanted) != there:
                return self.error(412, "PreconditionFailed")
            serial[0] += 1
            generation = serial[0]
            objects[self.name] = (generation, data)
        self.answer(200, body, [("ETag", etag(data)), ("x-goog-generation", str(generation))])

    def do_POST(self):
        if not self.parse():
            return
        with lock:
            if "uploads" in self.query:
                serial[0] += 1
                number = f"upload-{serial[0]}"
                uploads[number] = {}
                body = f"<InitiateMultipartUploadResult><UploadId>{number}</UploadId>" \
                    "</InitiateMultipartUploadResult>"
                return self.answer(200, body.encode())
            parts = uploads.pop(self.query.get("uploadId"), None)
        if parts is None:
            return self.error(404, "NoSuchUpload")
        data = b"".join(parts[number] for number in sorted(parts))
        body = f"<CompleteMultipartUploadResult><ETag>{escape(etag(data))}</ETag>" \
            "</CompleteMultipartUploadResult>"
        self.store(data, body.encode())

    def do_DELETE(self):
        if not self.parse():
            return
        with lock:
            gone = objects.pop(self.name, None)
        return self.answer(204) if gone else self.error(404, "NoSuchKey")

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        if not self.parse():
            return
        if not self.name:
            return self.list()
        with lock:
            found = objects.get(self.name)
        if found is None:
            return self.error(404, "NoSuchKey")
        generation, data = found
        headers = [("ETag", etag(data)), ("x-goog-generation", str(generation)),
                   ("Last-Modified", formatdate(usegmt=True))]
        if self.command == "HEAD":
            return self.answer(200, headers=headers, length=len(data))
        asked = self.headers.get("Range")
        if asked is None:
            return self.answer(200, data, headers)
        start, end = asked.removeprefix("bytes=").split("-")
        start, end = int(start), min(int(end), len(data) - 1)
        if start >= len(data):
            return self.error(416, "InvalidRange")
        headers.append(("Content-Range", f"bytes {start}-{end}/{len(data)}"))
        self.answer(206, data[start:end + 1], headers)

    def list(self):
        prefix, after = self.query.get("prefix", ""), self.query.get("continuation-token", "")
        with lock:
            names = sorted(n for n in objects if n.startswith(prefix) and n > after)
            page = [(name, objects[name][1]) for name in names[:PAGE]]
        items = "".join(
            f"<Contents><Key>{escape(name)}</Key><Size>{len(data)}</Size><ETag>{escape(etag(data))}</ETag>"
            "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>" for name, data in page)
        token = f"<NextContinuationToken>{escape(page[-1][0])}</NextContinuationToken>" \
            if len(names) > PAGE else ""
        self.answer(200, f"<ListBucketResult>{items}{token}</ListBucketResult>".encode())


BUCKET = sys.argv[2]
ThreadingHTTPServer.daemon_threads = True
ThreadingHTTPServer.request_queue_size = 128
ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
