import { describe, expect, it } from 'vitest';

import { formatBytes, formatNumber, stepNumbers } from '../src/numbers';

describe('formatNumber', () => {
  it.each([
    [0, '0'],
    [-0.31234, '−0.312'],
    [12, '12'],
    [1234.5, '1230'],
    [0.00001234, '1.2e−5'],
    [-2.5e9, '−2.5e+9'],
    ['nan', 'NaN'],
    ['-inf', '−∞']
  ] as const)('%s → %s', (number, text) => expect(formatNumber(number)).toBe(text));
});

describe('stepNumbers', () => {
  it.each([
    [5, '0–4'],
    [1, '0']
  ])('%d steps: %s', (steps, text) => expect(stepNumbers(steps)).toBe(text));
});

describe('formatBytes', () => {
  it.each([
    [0, '0 B'],
    [999, '999 B'],
    [4200, '4.2 kB'],
    [48_000_000, '48 MB']
  ])('%d → %s', (bytes, text) => expect(formatBytes(bytes)).toBe(text));
});
