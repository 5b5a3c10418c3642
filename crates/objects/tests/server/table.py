"""Makes a table in a local DynamoDB, which takes any signature."""

import json
import sys
import urllib.request

url, table = sys.argv[1:]
keys = [("p", "HASH"), ("s", "RANGE")]
wanted = {
    "TableName": table,
    "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name, _ in keys],
    "KeySchema": [{"AttributeName": name, "KeyType": kind} for name, kind in keys],
    "BillingMode": "PAY_PER_REQUEST",
}
request = urllib.request.Request(url, data=json.dumps(wanted).encode(), headers={
    "Content-Type": "application/x-amz-json-1.0",
    "X-Amz-Target": "DynamoDB_20120810.CreateTable",
    "Authorization": "AWS4-HMAC-SHA256 Credential=fogbanktest/20260101/us-east-1/dynamodb/aws4_request, "
    "SignedHeaders=host, Signature=0"})
with urllib.request.urlopen(request) as answer:
    assert answer.status == 200, answer.status
