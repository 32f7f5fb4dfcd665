// urtrs-porcupine judges histories of urtrs-sim with Porcupine, a linearizability checker by another author.
// Exit codes: 0 every history is legal, 1 one is not, 2 usage or an unreadable history, 3 a check timed out.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sort"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

type verdict struct {
	File       string `json:"file"`
	Verdict    string `json:"verdict"` // "legal", "illegal", "timeout" or "unreadable"
	Operations int    `json:"operations"`
	Sectors    int    `json:"sectors"`
	Cuts       int    `json:"cuts"`
	Where      string `json:"where,omitempty"`
}

func judge(file string, limit time.Duration) verdict {
	result := verdict{File: file, Verdict: "legal"}
	source, err := os.Open(file)
	if err != nil {
		return verdict{File: file, Verdict: "unreadable", Where: err.Error()}
	}
	defer source.Close()
	h, err := readHistory(source)
	if err != nil {
		return verdict{File: file, Verdict: "unreadable", Where: err.Error()}
	}
	sectors := sectorOperations(h)
	places := make([]place, 0, len(sectors))
	for where := range sectors {
		places = append(places, where)
	}
	sort.Slice(places, func(a, b int) bool {
		return places[a].disk < places[b].disk ||
			(places[a].disk == places[b].disk && places[a].sector < places[b].sector)
	})
	result.Operations, result.Sectors, result.Cuts = len(h.operations), len(places), h.cuts
	for _, where := range places {
		name := fmt.Sprintf("sector %d of %s", where.sector, where.disk)
		switch porcupine.CheckOperationsTimeout(modelOf(sectors[where]), sectors[where], limit) {
		case porcupine.Illegal:
			result.Verdict, result.Where = "illegal", name
			return result
		case porcupine.Unknown:
			result.Verdict, result.Where = "timeout", name
		}
	}
	return result
}

func judgeAll(files []string, limit time.Duration, jobs int, report func(verdict)) {
	next := make(chan string)
	found := make(chan verdict)
	var workers sync.WaitGroup
	for job := 0; job < jobs; job++ {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for file := range next {
				found <- judge(file, limit)
			}
		}()
	}
	go func() {
		for _, file := range files {
			next <- file
		}
		close(next)
		workers.Wait()
		close(found)
	}()
	for one := range found {
		report(one)
	}
}

func expand(arguments []string) ([]string, error) {
	var files []string
	for _, argument := range arguments {
		about, err := os.Stat(argument)
		if err != nil {
			return nil, err
		}
		if !about.IsDir() {
			files = append(files, argument)
			continue
		}
		inside, err := filepath.Glob(filepath.Join(argument, "*.jsonl"))
		if err != nil {
			return nil, err
		}
		files = append(files, inside...)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no *.jsonl file; `urtrs-sim sweep --seeds 0..100 --histories FOLDER` writes some")
	}
	return files, nil
}

func exitCode(counts map[string]int) int {
	switch {
	case counts["unreadable"] != 0:
		return 2
	case counts["illegal"] != 0:
		return 1
	case counts["timeout"] != 0:
		return 3
	}
	return 0
}

func main() {
	limit := flag.Duration("timeout", time.Minute, "limit of the check of one sector")
	jobs := flag.Int("jobs", runtime.NumCPU(), "histories judged at a time")
	asJSON := flag.Bool("json", false, "print one JSON object per history instead of text")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: urtrs-porcupine [options] FOLDER|FILE...\n"+
			"Judges histories of `urtrs-sim sweep --histories FOLDER`.\nExample: urtrs-porcupine histories")
		flag.PrintDefaults()
	}
	flag.Parse()
	files, err := expand(flag.Args())
	if err != nil || *jobs < 1 {
		if err == nil {
			err = fmt.Errorf("--jobs must be at least 1")
		}
		fmt.Fprintln(os.Stderr, "urtrs-porcupine:", err)
		os.Exit(2)
	}
	counts := map[string]int{}
	operations, sectors, cuts, done := 0, 0, 0, 0
	output := json.NewEncoder(os.Stdout)
	judgeAll(files, *limit, *jobs, func(one verdict) {
		counts[one.Verdict]++
		operations, sectors, cuts, done = operations+one.Operations, sectors+one.Sectors, cuts+one.Cuts, done+1
		if *asJSON {
			output.Encode(one)
			return
		}
		if one.Verdict != "legal" {
			fmt.Printf("%s: %s: %s\n", one.File, one.Verdict, one.Where)
		}
		if done%1000 == 0 {
			fmt.Fprintf(os.Stderr, "%d of %d histories judged\n", done, len(files))
		}
	})
	if !*asJSON {
		fmt.Printf("%d histories, %d operations, %d sectors, %d disks cut off at a loss: %d legal, %d illegal, "+
			"%d timed out, %d unreadable\n", len(files), operations, sectors, cuts, counts["legal"],
			counts["illegal"], counts["timeout"], counts["unreadable"])
	}
	os.Exit(exitCode(counts))
}
