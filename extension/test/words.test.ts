import * as ts from 'typescript';
import { describe, expect, it } from 'vitest';

import { template, translated, untranslated } from './words';

describe('The texts of the extension', () => {
  it('are in the template for translators; `jlpm test -u` writes it', async () => {
    await expect(template(translated())).toMatchFileSnapshot('../locale/rfnb.pot');
  });

  it('are all translated', () => {
    const isAllowed = (file: string, node: ts.Node) =>
      file === 'entry/standalone.ts' || // a saved page has no translations
      file === 'kernel/requests.ts' || // stands in for an error of the kernel, which is in English
      (file === 'lab/commands.ts' && isInside(node, 'commandSettings')) || // JupyterLab translates what is in schema/
      (ts.isPropertyAssignment(node.parent) && ['description', 'shortcut'].includes(node.parent.name.getText())) || // of plugins, of keys
      (ts.isNewExpression(node.parent) && node.parent.expression.getText() === 'Token');
    expect(untranslated(isAllowed)).toEqual([]);
  });

  it('are found by the test above', () => {
    expect(untranslated(() => false).some(text => text.startsWith('entry/standalone.ts: This page has'))).toBe(true);
    expect(translated().map(({ texts }) => texts[0])).toContain('Find steps where …');
  });
});

function isInside(node: ts.Node, name: string): boolean {
  for (let at: ts.Node | undefined = node; at; at = at.parent) {
    if (ts.isFunctionDeclaration(at) && at.name?.text === name) {
      return true;
    }
  }
  return false;
}
