// SPDX-License-Identifier: MIT OR Apache-2.0

// Prints what one wait that Go's runtime samples costs a program: two goroutines that hand a number to each other, below FRAMES calls,
// with the rate at 0 and at 1, by turns. Each round is two waits. docs/performance.md has results.
//
//	go run benches/go_waits.go [FRAMES]
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"
)

const rounds = 300000

//go:noinline
func play(frames int, out, in chan int) {
	if frames > 0 {
		play(frames-1, out, in)
		return
	}
	for i := 0; i < rounds; i++ {
		out <- 1
		<-in
	}
}

func run(frames int) float64 {
	ping, pong := make(chan int), make(chan int)
	go func() {
		for i := 0; i < rounds; i++ {
			<-ping
			pong <- 1
		}
	}()
	begun := time.Now()
	play(frames, ping, pong)
	return float64(time.Since(begun).Nanoseconds()) / rounds
}

func main() {
	frames := 10
	if len(os.Args) > 1 {
		frames, _ = strconv.Atoi(os.Args[1])
	}
	runtime.GOMAXPROCS(1)
	for turn := 0; turn < 5; turn++ {
		runtime.SetBlockProfileRate(0)
		plain := run(frames)
		runtime.SetBlockProfileRate(1)
		sampled := run(frames)
		fmt.Printf("%d frames: %.0f ns a round, %.0f ns sampled: %.0f ns a wait\n", frames, plain, sampled, (sampled-plain)/2)
	}
}
