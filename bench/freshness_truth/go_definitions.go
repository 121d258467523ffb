// What go/parser says is defined in files: JSON lines {path, definitions: [[name, kind, line, end, shape], …]}. The
// shape is the tokens of the definition by go/scanner, without comments. Files are listed on standard input.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"strings"
)

type told struct {
	Path        string  `json:"path"`
	Definitions [][]any `json:"definitions"`
}

func receiver(list *ast.FieldList) string {
	if list == nil || len(list.List) == 0 {
		return ""
	}
	kind := list.List[0].Type
	for {
		switch k := kind.(type) {
		case *ast.StarExpr:
			kind = k.X
		case *ast.ParenExpr:
			kind = k.X
		case *ast.IndexExpr:
			kind = k.X
		case *ast.IndexListExpr:
			kind = k.X
		case *ast.Ident:
			return k.Name + "."
		default:
			return ""
		}
	}
}

func shape(source []byte) string {
	set := token.NewFileSet()
	file := set.AddFile("", set.Base(), len(source))
	var lexer scanner.Scanner
	lexer.Init(file, source, nil, 0)
	words := []string{}
	for {
		_, kind, text := lexer.Scan()
		if kind == token.EOF {
			return strings.Join(words, " ")
		}
		if kind == token.SEMICOLON {
			text = ";"
		} else if text == "" {
			text = kind.String()
		}
		words = append(words, text)
	}
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		path := lines.Text()
		source, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, source, parser.SkipObjectResolution)
		if err != nil {
			continue
		}
		answer := told{Path: path, Definitions: [][]any{}}
		add := func(name string, kind string, from token.Pos, to token.Pos) {
			first, last := set.Position(from), set.Position(to)
			answer.Definitions = append(answer.Definitions,
				[]any{name, kind, first.Line, last.Line, shape(source[first.Offset:last.Offset])})
		}
		for _, declaration := range file.Decls {
			switch d := declaration.(type) {
			case *ast.FuncDecl:
				kind := "function"
				if d.Recv != nil {
					kind = "method"
				}
				add(receiver(d.Recv)+d.Name.Name, kind, d.Type.Func, d.End())
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if s, ok := spec.(*ast.TypeSpec); ok {
						add(s.Name.Name, "type", s.Pos(), s.End())
					}
				}
			}
		}
		text, _ := json.Marshal(answer)
		fmt.Println(string(text))
	}
}
