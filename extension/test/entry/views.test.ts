import { describe, expect, it } from 'vitest';

import widget, { enhancePage } from '../../src/entry/views';

describe('a view as a widget or a page', () => {
  it('is the same HTML with the same scripts', () => {
    const el = document.createElement('div');
    document.body.append(el);
    const html = '<span class="rfnb-dim" data-rfnb-dim="3">x</span>';
    const model = { get: (name: string) => (name === 'html' ? html : { kind: 'tensor' }) };
    const close = widget.render({ model: model as never, el });
    expect(el.querySelector('span')?.getAttribute('role')).toBe('button');
    close();
    document.body.innerHTML = `<div id="rfnb-view">${html}</div><script id="rfnb-scripts">{"kind":"tensor"}</script>`;
    enhancePage(document);
    expect(document.querySelector('span')?.getAttribute('role')).toBe('button');
  });
});
