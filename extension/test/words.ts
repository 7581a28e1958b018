import * as fs from 'node:fs';
import * as path from 'node:path';
import * as ts from 'typescript';

/** A text for users: the file it is in, and of a text that depends on a number, both forms. */
export interface Text {
  file: string;
  texts: string[];
}

export const SOURCES = path.resolve(__dirname, '../src');

/** The files of the extension, except what Python generates. */
export function sources(folder = SOURCES): string[] {
  const entries = fs.readdirSync(folder, { withFileTypes: true });
  const found = entries.flatMap(entry => {
    const file = path.join(folder, entry.name);
    return entry.isDirectory() ? sources(file) : /\.tsx?$/.test(entry.name) ? [file] : [];
  });
  return found.filter(file => !file.endsWith('schema.ts')).sort();
}

/** Calls `visit` with each node of a file and with whether it is in a call of `__` or `_n`. */
function walk(file: string, visit: (node: ts.Node, translated: boolean) => void): void {
  const source = ts.createSourceFile(file, fs.readFileSync(file, 'utf-8'), ts.ScriptTarget.Latest, true);
  const go = (node: ts.Node, translated: boolean): void => {
    visit(node, translated);
    ts.forEachChild(node, child => go(child, translated || isTranslation(node)));
  };
  go(source, false);
}

function isTranslation(node: ts.Node): node is ts.CallExpression {
  return (
    ts.isCallExpression(node) &&
    ts.isPropertyAccessExpression(node.expression) &&
    ['__', '_n'].includes(node.expression.name.text)
  );
}

/** The texts that are translated. */
export function translated(): Text[] {
  const found: Text[] = [];
  for (const file of sources()) {
    walk(file, node => {
      if (isTranslation(node)) {
        const count = (node.expression as ts.PropertyAccessExpression).name.text === '_n' ? 2 : 1;
        const parts = node.arguments.slice(0, count);
        if (parts.every(ts.isStringLiteralLike)) {
          found.push({ file: path.relative(SOURCES, file), texts: parts.map(part => (part as ts.StringLiteral).text) });
        }
      }
    });
  }
  return [...found, ...settings()];
}

/** The titles and descriptions of settings, which JupyterLab translates. */
function settings(): Text[] {
  const folder = path.resolve(SOURCES, '../schema');
  return fs.readdirSync(folder).flatMap(file => {
    const text = fs.readFileSync(path.join(folder, file), 'utf-8');
    const found = text.matchAll(/"(?:title|description|label)": ("[^"]*")/g);
    return [...found].map(([, quoted]) => ({ file: `schema/${file}`, texts: [JSON.parse(quoted) as string] }));
  });
}

/** What users may read although it is not translated: texts that begin with a capital, in several words. */
export function untranslated(isAllowed: (file: string, node: ts.Node) => boolean): string[] {
  const found: string[] = [];
  for (const file of sources()) {
    const name = path.relative(SOURCES, file);
    walk(file, (node, isDone) => {
      const text = ts.isStringLiteralLike(node) || ts.isJsxText(node) ? node.text.trim() : '';
      const isShown = ts.isJsxText(node) ? /[A-Za-z]{2}/.test(text) : /^[A-Z][a-z]+[ ,.…]/.test(text) || isLabel(node);
      if (!isDone && isShown && !isAllowed(name, node)) {
        found.push(`${name}: ${text}`);
      }
    });
  }
  return found;
}

/** Whether it is a label that is written in a tag. */
function isLabel(node: ts.Node): boolean {
  const { parent } = node;
  return (
    ts.isStringLiteral(node) &&
    ts.isJsxAttribute(parent) &&
    ['title', 'aria-label', 'placeholder'].includes(parent.name.getText()) &&
    /[a-z]{2} |^[A-Z][a-z]/.test(node.text)
  );
}

/** The template of a catalogue, in the format of gettext. */
export function template(texts: readonly Text[]): string {
  const entries = new Map<string, { files: Set<string>; texts: string[] }>();
  for (const { file, texts: parts } of texts) {
    const entry = entries.get(parts[0]) ?? { files: new Set(), texts: parts };
    entry.files.add(file);
    entries.set(parts[0], parts.length > 1 ? { ...entry, texts: parts } : entry);
  }
  const head = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n';
  const rows = [...entries]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([, { files, texts: parts }]) => {
      const ids = parts.map((part, i) => `msgid${i ? '_plural' : ''} ${JSON.stringify(part)}`);
      const empty = parts.length > 1 ? ['msgstr[0] ""', 'msgstr[1] ""'] : ['msgstr ""'];
      return [...[...files].sort().map(file => `#: ${file}`), ...ids, ...empty].join('\n');
    });
  return [head, ...rows].join('\n\n').replace('\n\n\n', '\n\n') + '\n';
}
