// What go/parser says is defined in files: JSON lines {path, names, lines}. Files are listed on standard input.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
)

type told struct {
	Path  string   `json:"path"`
	Names []string `json:"names"`
	Lines []int    `json:"lines"`
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		path := lines.Text()
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			continue
		}
		one := told{Path: path, Names: []string{}, Lines: []int{}}
		add := func(name *ast.Ident) {
			if name != nil && name.Name != "_" {
				one.Names = append(one.Names, name.Name)
				one.Lines = append(one.Lines, set.Position(name.Pos()).Line)
			}
		}
		for _, declaration := range file.Decls {
			if d, ok := declaration.(*ast.GenDecl); ok {
				for _, spec := range d.Specs {
					if s, ok := spec.(*ast.ValueSpec); ok {
						for _, name := range s.Names {
							add(name)
						}
					}
				}
			}
		}
		ast.Inspect(file, func(node ast.Node) bool {
			switch n := node.(type) {
			case *ast.FuncDecl:
				add(n.Name)
			case *ast.TypeSpec:
				add(n.Name)
			case *ast.InterfaceType:
				for _, method := range n.Methods.List {
					for _, name := range method.Names {
						add(name)
					}
				}
			}
			return true
		})
		text, _ := json.Marshal(one)
		fmt.Println(string(text))
	}
}
