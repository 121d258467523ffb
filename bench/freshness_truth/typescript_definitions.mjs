// What the TypeScript compiler says is defined in files: JSON lines {path, definitions: [[name, kind, line, end, shape], …]}.
// The shape is the syntax tree of the definition: kinds of nodes, names and literals, without comments and layout.
// node typescript_definitions.mjs PATH_OF_TYPESCRIPT < list of files
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

const ts = createRequire(import.meta.url)(process.argv[2]);
const kinds = ts.SyntaxKind;

function isFunction(node) {
  return node !== undefined && (ts.isArrowFunction(node) || ts.isFunctionExpression(node));
}

function kindOf(node) {
  switch (node.kind) {
    case kinds.FunctionDeclaration: return "function";
    case kinds.ClassDeclaration: return "class";
    case kinds.InterfaceDeclaration: return "interface";
    case kinds.TypeAliasDeclaration: return "type";
    case kinds.MethodDeclaration: return ts.isClassDeclaration(node.parent) ? "method" : "";
    case kinds.VariableDeclaration: {
      const statement = node.parent.parent;
      return ts.isVariableStatement(statement) && ts.isSourceFile(statement.parent) && isFunction(node.initializer) ? "function" : "";
    }
    default: return "";
  }
}

function shape(node) {
  const words = [];
  const visit = (inner) => {
    if (inner.kind >= kinds.FirstJSDocNode && inner.kind <= kinds.LastJSDocNode) return;
    const isText = inner.text !== undefined && inner.kind !== kinds.SourceFile;
    words.push(isText ? `${inner.kind}:${inner.text}` : `${inner.kind}`);
    if (inner.operator !== undefined) words.push(`op:${inner.operator}`);
    ts.forEachChild(inner, visit);
    if (!isText) words.push(")");
  };
  visit(node);
  return words.join(" ");
}

for (const path of readFileSync(0, "utf8").split("\n").filter(Boolean)) {
  let file;
  try {
    file = ts.createSourceFile(path, readFileSync(path, "utf8"), ts.ScriptTarget.Latest, true);
  } catch {
    continue;
  }
  if (file.parseDiagnostics.length > 0) continue;
  const definitions = [];
  const visit = (node) => {
    const kind = kindOf(node);
    if (kind && node.name && ts.isIdentifier(node.name)) {
      const container = kind === "method" && node.parent.name ? `${node.parent.name.text}.` : "";
      const whole = node.kind === kinds.VariableDeclaration ? node.parent.parent : node;
      const line = file.getLineAndCharacterOfPosition(whole.getStart(file)).line + 1;
      const end = file.getLineAndCharacterOfPosition(whole.getEnd()).line + 1;
      definitions.push([container + node.name.text, kind, line, end, shape(node)]);
    }
    if (ts.isSourceFile(node) || ts.isClassDeclaration(node) || ts.isVariableStatement(node) || ts.isVariableDeclarationList(node)) ts.forEachChild(node, visit);
  };
  visit(file);
  console.log(JSON.stringify({ path, definitions }));
}
