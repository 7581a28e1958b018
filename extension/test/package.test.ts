import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';

import { VERSION } from '../src/kernel/connection';

const read = (path: string) => readFileSync(path, 'utf8'); // tests run in the folder of the package

describe('the package', () => {
  it('says its version once', () => {
    expect(VERSION).toBe(JSON.parse(read('package.json')).version);
  });

  it('has the palette of the Python side', () => {
    const style = read('../rfnb/display/markup/style.py');
    const palette = style.slice(style.indexOf('PALETTE'), style.indexOf(')', style.indexOf('PALETTE')));
    const colours = [...read('style/base.css').matchAll(/--rfnb-dim-\d: (#\w{6})/g)].map(match => match[1]);
    expect(colours).toEqual(palette.match(/#\w{6}/g));
  });

  it('records no download address', () => {
    expect(read('yarn.lock')).not.toMatch(/https?:/);
  });
});
