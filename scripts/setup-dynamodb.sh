#!/bin/sh
# Installs Amazon's DynamoDB for one machine, which `make test-dynamodb` starts, under .tools/. Quick when it
# is there already. Needs Java 17 or newer and Maven, and installs them from the distribution if missing.
set -eu
cd "$(dirname "$0")/.."

version=2.6.1
missing=
command -v java >/dev/null || missing="$missing default-jdk-headless"
command -v mvn >/dev/null || missing="$missing maven"
command -v ip >/dev/null || missing="$missing iproute2"
if [ -n "$missing" ]; then
    apt-get update -qq
    # shellcheck disable=SC2086 # a list of packages
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $missing
fi
if [ "$(cat .tools/dynamodb-local.installed 2>/dev/null || true)" != $version ]; then
    rm -rf .tools/dynamodb-local
    mkdir -p .tools/dynamodb-local
    cat >.tools/dynamodb-local/pom.xml <<END
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>none</groupId><artifactId>none</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>com.amazonaws</groupId><artifactId>DynamoDBLocal</artifactId><version>$version</version>
    </dependency>
  </dependencies>
</project>
END
    mvn -q -B -f .tools/dynamodb-local/pom.xml dependency:copy-dependencies -DoutputDirectory=lib
    echo $version >.tools/dynamodb-local.installed
fi
