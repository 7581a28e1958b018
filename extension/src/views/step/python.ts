/** A token of a source line and its kind. */
export interface Token {
  text: string;
  kind: 'keyword' | 'string' | 'comment' | 'number' | 'plain';
}

const PATTERN = new RegExp(
  [
    /(?<comment>#.*$)/,
    /(?<string>[rbfuRBFU]{0,2}(?:"""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)|"(?:\\.|[^"\\])*"?|'(?:\\.|[^'\\])*'?))/,
    /(?<keyword>\b(?:and|as|assert|async|await|break|class|continue|def|del|elif|else|except|False|finally|for|from|global|if|import|in|is|lambda|None|nonlocal|not|or|pass|raise|return|True|try|while|with|yield)\b)/,
    /(?<number>\b\d[\d_]*\.?[\d_]*(?:e[-+]?\d+)?\b)/,
    /(?<plain>\w+|\s+|[^])/
  ]
    .map(part => part.source)
    .join('|'),
  'g'
);

/** The tokens of one line of Python, for highlighting; joined, they give the line. */
export function tokens(line: string): Token[] {
  const found: Token[] = [];
  for (const match of line.matchAll(PATTERN)) {
    const [kind] = Object.entries(match.groups ?? {}).find(([, text]) => text !== undefined) ?? ['plain'];
    const last = found[found.length - 1];
    if (last && kind === 'plain' && last.kind === 'plain') {
      last.text += match[0];
    } else {
      found.push({ text: match[0], kind: kind as Token['kind'] });
    }
  }
  return found;
}

/** Number of columns by which all lines are indented. */
export function indentation(lines: readonly string[]): number {
  const widths = lines.filter(line => line.trim() !== '').map(line => line.length - line.trimStart().length);
  return widths.length > 0 ? Math.min(...widths) : 0;
}
