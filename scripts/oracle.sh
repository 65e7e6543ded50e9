#!/bin/sh
# Records real programs with a copy of every sample's stack, walks each copy a second time by libdw of elfutils, and
# prints how many stacks are complete and how many are the same. POSIX sh; needs root.
# A program with less than 99.9 % of either is marked BELOW, and the exit status is 1 unless it is one of the
# exceptions below. Where libdw is blind for more than half of the stacks, they count as not judged.
#
#   scripts/oracle.sh [-v] [PROGRAM…]      all programs, or some (-v: an example of every difference)
#
# PROF names another binary than target/prof-testing, built with the feature `testing`; SECONDS_EACH how long each program runs (default 5).
set -u
cd "$(dirname "$0")/.." || exit 1

prof=${PROF:-$PWD/target/prof-testing}
seconds=${SECONDS_EACH:-5}
verbose=
if [ "${1:-}" = -v ]; then
	verbose=-v
	shift
fi
work=$(mktemp -d) || exit 1
chmod 755 "$work"
cleanup() {
	[ -z "${nginx_pid:-}" ] || kill "$nginx_pid" 2>/dev/null
	[ ! -e "$work/pg/postmaster.pid" ] || as_postgres "$pg_bin/pg_ctl" -D "$work/pg" -m immediate stop >/dev/null 2>&1
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

as_postgres() {
	setpriv --reuid postgres --regid postgres --clear-groups "$@"
}

# record CMD ARG…: records a command, and what it starts, for the time that each program has.
record() {
	rm -f "$work/copies"
	"$prof" record -q -F 499 -f -o "$work/prof.data" --stack-copies "$work/copies" -- \
		timeout "$seconds" "$@" >"$work/out" 2>&1
}

# record_running PATTERN: the same for processes that run already.
record_running() {
	rm -f "$work/copies"
	"$prof" record -q -F 499 -f -o "$work/prof.data" --stack-copies "$work/copies" -d "${seconds}s" \
		--name "$1" >"$work/out" 2>&1
}

big_cpp() {
	cat <<'CPP'
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <regex>
#include <sstream>
#include <string>
#include <variant>
#include <vector>
template <int N> struct Tower {
	std::map<std::string, std::vector<std::variant<int, double, std::string>>> values;
	Tower<N - 1> below;
	int sum(int seed) const
	{
		std::ostringstream text;
		for (auto &[key, list] : values)
			for (auto &value : list)
				std::visit([&](auto &&item) { text << item << N; }, value);
		return int(text.str().size()) + below.sum(seed * N) + std::hash<std::string>()(text.str()) % (N + 2);
	}
};
template <> struct Tower<0> {
	int sum(int seed) const { return seed; }
};
CPP
	i=0
	while [ $i -lt 60 ]; do
		cat <<CPP
int work$i(const std::string &text, std::vector<int> values) {
	std::regex pattern("([a-z]+)$i([0-9]*)");
	std::smatch match;
	std::sort(values.begin(), values.end(), [](int a, int b) { return a % ($i + 3) < b % ($i + 7); });
	std::function<int(int)> step = [&](int n) { return n ? step(n - 1) + values[n % values.size()] : $i; };
	Tower<$i> tower;
	return std::regex_search(text, match, pattern) ? step(9) : tower.sum(int(match.size()));
}
CPP
		i=$((i + 1))
	done
}

big_rs() {
	echo '#![allow(dead_code)]'
	i=1
	while [ $i -lt 1500 ]; do
		echo "pub fn f$i(v: &[u64]) -> Vec<String> { let mut out: Vec<String> = v.iter().filter(|x| **x % $i == 0).map(|x| format!(\"{x} $i\")).collect(); out.sort(); out.dedup(); out }"
		i=$((i + 1))
	done
}

# ---- The programs: run_NAME records one; a status other than 0 or 124 (time is up) is a failure. -------------------

run_clang() {
	big_cpp >"$work/big.cpp"
	record clang++ -std=c++17 -O2 -c -o "$work/big.o" "$work/big.cpp"
}

run_cc1plus() {
	big_cpp >"$work/big.cpp"
	record g++ -std=c++17 -O2 -c -o "$work/big.o" "$work/big.cpp"
}

run_rustc() {
	big_rs >"$work/big.rs"
	record rustc --crate-type lib -O --out-dir "$work" "$work/big.rs"
}

run_postgres() {
	pg_bin=$(ls -d /usr/lib/postgresql/*/bin | tail -n 1)
	mkdir "$work/pg" "$work/pg-socket" && chown postgres "$work/pg" "$work/pg-socket" || return 1
	as_postgres "$pg_bin/initdb" -D "$work/pg" -A trust --no-sync >"$work/out" 2>&1 || return 1
	as_postgres "$pg_bin/pg_ctl" -D "$work/pg" -w -l "$work/pg/log" \
		-o "-c listen_addresses= -k $work/pg-socket -c fsync=off" start >>"$work/out" 2>&1 || return 1
	bench="as_postgres $pg_bin/pgbench -h $work/pg-socket"
	$bench -i -s 3 postgres >>"$work/out" 2>&1 || return 1
	$bench -c 4 -T $((seconds + 3)) postgres >/dev/null 2>&1 &
	sleep 1
	record_running '^postgres$'
	status=$?
	wait $!
	as_postgres "$pg_bin/pg_ctl" -D "$work/pg" -m fast -w stop >/dev/null 2>&1
	return $status
}

run_sqlite3() {
	record sqlite3 :memory: "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT, c REAL);
		WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 100000)
			INSERT INTO t SELECT x, hex(x * 7919 % 100003), x * 0.5 FROM n;
		CREATE INDEX i ON t(b); SELECT count(*) FROM t a JOIN t b ON a.b = b.b || '1';
		WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 100)
			SELECT sum(s) FROM n, (SELECT sum(c) AS s, substr(b, 1, 3) AS p FROM t GROUP BY p ORDER BY s);
		SELECT count(*) FROM t a, t b WHERE a.b < b.b;"
}

run_python3() {
	record /usr/bin/python3 -c "
import json, re, hashlib, decimal, zlib
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
def deep(n): return n and 1 + deep(n - 1)
items = [('key%d' % (i * 7919 % 1009), i % 17) for i in range(2000)]
text = json.dumps(items)
while True:
    json.loads(text); re.findall(r'[a-z]+[0-9]{2,}', text); sorted(items, key=lambda item: (item[1], item[0]))
    fib(14); deep(400); hashlib.sha512(text.encode()).digest(); zlib.compress(text.encode())
    decimal.Decimal(2).sqrt(); list(map(lambda x: x[0].upper(), items))
"
}

node_script="
const zlib = require('zlib'), crypto = require('crypto');
function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
const items = Array.from({ length: 3000 }, (_, i) => ({ key: 'k' + i * 7919 % 1009, value: i }));
for (;;) {
	const text = JSON.stringify(items), back = JSON.parse(text);
	back.sort((a, b) => a.key < b.key ? -1 : 1);
	text.match(/k[0-9]+5/g); fib(18); zlib.deflateSync(text); crypto.createHash('sha256').update(text).digest();
}"

run_node() {
	record node -e "$node_script"
}

run_openssl_rsa2048() {
	record openssl speed -seconds "$seconds" rsa2048
}

run_openssl_ecdsap256() {
	record openssl speed -seconds "$seconds" ecdsap256
}

run_openssl_aes() {
	record openssl speed -seconds "$seconds" -evp aes-256-gcm
}

run_openssl_sha256() {
	record openssl speed -seconds "$seconds" sha256
}

run_openssl_chacha() {
	record openssl speed -seconds "$seconds" -evp chacha20-poly1305
}

run_nginx() {
	mkdir -p "$work/www" && echo hello >"$work/www/small" && head -c 200000 /dev/urandom | base64 >"$work/www/large.txt"
	cat >"$work/nginx.conf" <<CONF
worker_processes 1; daemon off; pid $work/nginx.pid; error_log $work/nginx.log;
events { worker_connections 512; }
http {
	access_log $work/access.log; gzip on; gzip_types text/plain; types { text/plain txt; }
	client_body_temp_path $work/t1; proxy_temp_path $work/t2; fastcgi_temp_path $work/t3;
	uwsgi_temp_path $work/t4; scgi_temp_path $work/t5;
	server { listen 127.0.0.1:18080; root $work/www; }
}
CONF
	nginx -c "$work/nginx.conf" >"$work/out" 2>&1 &
	nginx_pid=$!
	sleep 1
	(while kill -0 $nginx_pid 2>/dev/null; do
		ab -q -n 20000 -c 8 http://127.0.0.1:18080/small
		ab -q -n 200 -c 8 -H 'Accept-Encoding: gzip' http://127.0.0.1:18080/large.txt
	done >/dev/null 2>&1) &
	load=$!
	record_running '^nginx$'
	status=$?
	kill $nginx_pid
	nginx_pid=
	wait $load
	return $status
}

run_go() {
	mkdir -p "$work/go" && cat >"$work/go/main.go" <<'GO'
package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os/exec"
	"regexp"
	"sort"
	"strings"
)

type item struct {
	Key   string
	Value int
}

func fib(n int) int {
	if n < 2 {
		return n
	}
	return fib(n-1) + fib(n-2)
}

func work(results chan<- int) {
	words := regexp.MustCompile(`k[0-9]+5`)
	for {
		items := make([]item, 0, 16)
		for i := 0; i < 3000; i++ {
			items = append(items, item{fmt.Sprintf("k%d", i*7919%1009), i})
		}
		text, _ := json.Marshal(items)
		var back []item
		_ = json.Unmarshal(text, &back)
		sort.Slice(back, func(a, b int) bool { return back[a].Key < back[b].Key })
		sum := sha256.Sum256(text)
		results <- len(words.FindAllString(string(text), -1)) + fib(20) + int(sum[0]) + strings.Count(string(text), "1")
	}
}

func start() {
	for {
		_ = exec.Command("/bin/true").Run()
	}
}

func main() {
	results := make(chan int)
	for i := 0; i < 4; i++ {
		go work(results)
	}
	go start()
	for {
		<-results
	}
}
GO
	(cd "$work/go" && CGO_ENABLED=0 GO111MODULE=off go build -o ../goprogram main.go) >"$work/out" 2>&1 || return 1
	record "$work/goprogram"
}

run_ffmpeg() {
	record ffmpeg -v error -f lavfi -i testsrc2=size=1280x720:rate=30 -f lavfi -i sine=frequency=440 \
		-c:v libx264 -preset medium -c:a aac -f null -
}

run_git() {
	git init -q "$work/repository" || return 1
	awk 'BEGIN { srand(7); for (c = 1; c <= 600; c++) {
		print "commit refs/heads/main\ncommitter a <a@b> " 1000000000 + c " +0000\ndata 2\nc\n";
		for (f = 0; f < 12; f++) { text = ""; for (l = 0; l < 120; l++) text = text "line " int(rand() * 400) " of " c "\n";
			print "M 100644 inline dir" f % 4 "/file" f "\ndata " length(text) "\n" text } } }' |
		git -C "$work/repository" fast-import --quiet >"$work/out" 2>&1 || return 1
	record sh -c "cd $work/repository; while :; do git repack -adfq --depth=200; git log -p >/dev/null; git gc -q --aggressive; done"
}

run_perl() {
	record perl -e 'sub fib { my $n = shift; $n < 2 ? $n : fib($n - 1) + fib($n - 2) }
		while (1) { my %h; $h{$_ % 997} .= "x$_" for 1 .. 20000; my $t = join ",", map { "$_=$h{$_}" } sort keys %h;
			my $n = () = $t =~ /x(\d+)5x/g; fib(16); my @s = sort { $a->[0] <=> $b->[0] } map { [$_ * 7919 % 1009] } 1 .. 5000 }'
}

# A program for other C libraries and ways of linking.
small_c() {
	cat <<'C'
#include <regex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>
static int up(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
static int down(int n) { return n ? n + down(n - 1) * 3 : getppid(); }
static volatile long ticks;
static void tick(int signal) { for (int i = 0; i < 20000; i++) ticks += i ^ signal; }
int main(void)
{
	struct itimerval every = { { 0, 3000 }, { 0, 3000 } };
	static int values[5000];
	static char text[4000];
	regex_t pattern;

	signal(SIGALRM, tick);
	setitimer(ITIMER_REAL, &every, NULL);
	regcomp(&pattern, "([a-z]+)[0-9]*x$", REG_EXTENDED);
	for (unsigned round = 0;; round++) {
		for (int i = 0; i < 5000; i++)
			values[i] = (i * 7919u + round) % 10007;
		qsort(values, 5000, sizeof(int), up);
		for (int i = 0; i < 200; i++)
			snprintf(text + strlen(text) % 3000, 900, "%d %s %.6f", values[i], "word", i * 0.7);
		regexec(&pattern, text, 0, NULL, 0);
		free(memset(malloc(round % 100000 + 1), 1, round % 100000 + 1));
		if (down(60) == 7)
			puts(text);
	}
}
C
}

run_musl_static() {
	small_c >"$work/small.c"
	musl-gcc -O2 -static -o "$work/musl-static" "$work/small.c" >"$work/out" 2>&1 || return 1
	record "$work/musl-static"
}

run_glibc_static() {
	small_c >"$work/small.c"
	cc -O2 -static -o "$work/glibc-static" "$work/small.c" >"$work/out" 2>&1 || return 1
	record "$work/glibc-static"
}

run_static_pie() {
	small_c >"$work/small.c"
	cc -O2 -static-pie -fPIE -o "$work/static-pie" "$work/small.c" >"$work/out" 2>&1 || return 1
	record "$work/static-pie"
}

run_glibc() {
	small_c >"$work/small.c"
	cc -O2 -fomit-frame-pointer -o "$work/dynamic" "$work/small.c" >"$work/out" 2>&1 || return 1
	record "$work/dynamic"
}

all='clang cc1plus rustc postgres sqlite3 python3 node openssl_rsa2048 openssl_ecdsap256 openssl_aes openssl_sha256
openssl_chacha nginx go ffmpeg git perl glibc static_pie glibc_static musl_static'

[ "$(id -u)" = 0 ] || {
	echo "oracle: root is needed to record" >&2
	exit 1
}
cc -O2 -o "$work/walk_again" tests/oracle/*.c -ldw -lelf || exit 1

# Programs that may be BELOW. docs/unwinding.md, "Comparison with libdw", gives the reason for each.
exceptions='rustc'

# judge PROGRAM: prints the line of a program from the counts on standard input; fails if it is BELOW.
judge() {
	tr '= ' '  ' | awk -v program="$1" '{
		for (i = 1; i < NF; i += 2) n[$i] = $(i + 1)
		compared = n["identical"] + n["differing"]
		complete = n["samples"] ? 100 * n["complete"] / n["samples"] : 0
		is_judged = n["samples"] && compared && n["blind"] <= n["samples"] / 2
		identical = is_judged ? 100 * n["identical"] / compared : 0
		is_below = complete < 99.9 || (is_judged && identical < 99.9)
		printf "%-18s %8d %8.2f%% %10s %10d %6d %6d %6d %9d%s\n", program, n["samples"], complete,
			is_judged ? sprintf("%.2f%%", identical) : "not judged", n["differing"], n["short"], n["deep"],
			n["blind"], n["uncopied"], is_below ? "  BELOW" : ""
		exit is_below
	}'
}

is_exception() {
	case " $exceptions " in *" $1 "*) return 0 ;; esac
	return 1
}

failed=0
printf '%-18s %8s %9s %10s %10s %6s %6s %6s %9s\n' program samples complete identical differing short deep blind uncopied
# Unquoted on purpose: a list of words.
for program in ${*:-$all}; do
	"run_$program"
	status=$?
	if [ $status != 0 ] && [ $status != 124 ]; then
		printf '%-18s failed with status %d\n' "$program" $status
		tail -n 3 "$work/out"
		failed=1
		continue
	fi
	"$work/walk_again" $verbose ${CLASSES:+-c $CLASSES} "$work/copies" >"$work/result" || failed=1
	if ! head -n 1 "$work/result" | judge "$program" && ! is_exception "$program"; then
		failed=1
	fi
	tail -n +2 "$work/result"
	rm -f "$work/copies" "$work/prof.data"
done
exit $failed
