// Compiles and evaluates CEL selectors of devices with k8s.io/dynamic-resource-allocation.
//
// The first line of standard input is a JSON array of devices, each of the others a JSON string: an
// expression. Each answer is a line: {"compile_error"}, {"panic"}, or {"max_cost", "answers"} with
// [matches, error, cost] for each device.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
)

type device struct {
	Driver                   string                                                    `json:"driver"`
	AllowMultipleAllocations *bool                                                     `json:"allowMultipleAllocations"`
	Attributes               map[resourceapi.QualifiedName]resourceapi.DeviceAttribute `json:"attributes"`
	Capacity                 map[resourceapi.QualifiedName]resourceapi.DeviceCapacity  `json:"capacity"`
}

type answer struct {
	CompileError string   `json:"compile_error,omitempty"`
	Panic        string   `json:"panic,omitempty"`
	MaxCost      uint64   `json:"max_cost,omitempty"`
	Answers      [][3]any `json:"answers,omitempty"`
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	lines.Scan()
	var devices []device
	must(json.Unmarshal(lines.Bytes(), &devices))
	for lines.Scan() {
		var expression string
		must(json.Unmarshal(lines.Bytes(), &expression))
		must(encoder.Encode(answerTo(expression, devices)))
	}
	must(lines.Err())
}

func answerTo(expression string, devices []device) (result answer) {
	defer func() {
		if problem := recover(); problem != nil {
			result = answer{Panic: fmt.Sprint(problem)}
		}
	}()
	compiler := cel.GetCompiler(cel.Features{EnableConsumableCapacity: true})
	compiled := compiler.CompileCELExpression(expression, cel.Options{})
	if compiled.Error != nil {
		return answer{CompileError: compiled.Error.Detail}
	}
	result = answer{MaxCost: compiled.MaxCost}
	for _, one := range devices {
		matches, details, err := compiled.DeviceMatches(context.Background(), cel.Device{
			Driver:                   one.Driver,
			AllowMultipleAllocations: one.AllowMultipleAllocations,
			Attributes:               one.Attributes,
			Capacity:                 one.Capacity,
		})
		text, cost := "", uint64(0)
		if err != nil {
			text = err.Error()
		}
		if details != nil && details.ActualCost() != nil {
			cost = *details.ActualCost()
		}
		result.Answers = append(result.Answers, [3]any{matches, text, cost})
	}
	return result
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
