// What the TypeScript compiler says is defined in files: JSON lines {path, definitions: [[name, line, kind], …]}.
// node typescript_truth.mjs PATH_OF_TYPESCRIPT < list of files
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

const ts = createRequire(import.meta.url)(process.argv[2]);
const kinds = ts.SyntaxKind;

function kindOf(node) {
  switch (node.kind) {
    case kinds.FunctionDeclaration: return "function";
    case kinds.ClassDeclaration: return "class";
    case kinds.InterfaceDeclaration: return "interface";
    case kinds.TypeAliasDeclaration: return "type";
    case kinds.EnumDeclaration: return "enum";
    case kinds.ModuleDeclaration: return "module";
    case kinds.MethodDeclaration: case kinds.GetAccessor: case kinds.SetAccessor: return "method";
    case kinds.MethodSignature: return ts.isInterfaceDeclaration(node.parent) ? "method" : "";
    case kinds.Constructor: return "method";
    case kinds.PropertyAssignment: case kinds.PropertyDeclaration: return isFunction(node.initializer) ? "method" : "";
    case kinds.VariableDeclaration: {
      const statement = node.parent.parent;
      if (!ts.isVariableStatement(statement)) return "";
      if (isFunction(node.initializer)) return "function";
      if (isRequire(node.initializer)) return ""; // an import
      return ts.isSourceFile(statement.parent) || ts.isModuleBlock(statement.parent) ? "variable" : "";
    }
    case kinds.BindingElement: {
      let around = node.parent;
      while (ts.isBindingElement(around) || ts.isObjectBindingPattern(around) || ts.isArrayBindingPattern(around)) around = around.parent;
      return ts.isVariableDeclaration(around) && ts.isVariableStatement(around.parent.parent) && ts.isSourceFile(around.parent.parent.parent)
        && !isRequire(around.initializer) ? "variable" : "";
    }
    case kinds.BinaryExpression: {
      const left = node.left;
      if (node.operatorToken.kind !== kinds.EqualsToken || !ts.isPropertyAccessExpression(left)) return "";
      return isFunction(node.right) ? "function" : "";
    }
    default: return "";
  }
}

function isFunction(node) {
  return node !== undefined && (ts.isArrowFunction(node) || ts.isFunctionExpression(node));
}

function isRequire(node) {
  return node !== undefined && ts.isCallExpression(node) && ts.isIdentifier(node.expression) && node.expression.text === "require";
}

function nameOf(node, file) {
  if (node.kind === kinds.Constructor) return ["constructor", node.getStart(file)];
  const name = node.kind === kinds.BinaryExpression ? node.left.name : node.name;
  return name && (ts.isIdentifier(name) || ts.isPrivateIdentifier(name)) ? [name.text, name.getStart(file)] : null;
}

for (const path of readFileSync(0, "utf8").split("\n").filter(Boolean)) {
  const text = readFileSync(path, "utf8");
  const file = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
  const definitions = [];
  const visit = (node) => {
    const kind = kindOf(node);
    const named = kind && nameOf(node, file);
    if (named) {
      const place = file.getLineAndCharacterOfPosition(named[1]);
      definitions.push([named[0], place.line + 1, kind]);
    }
    ts.forEachChild(node, visit);
  };
  visit(file);
  console.log(JSON.stringify({ path, broken: file.parseDiagnostics.length > 0, definitions }));
}
