import type { Number } from './schema';

const MINUS = '−';

/** A number in at most four digits, with a true minus sign: 0.123, −4.2e−5, NaN, ∞. */
export function formatNumber(value: Number): string {
  if (typeof value === 'string') {
    return { nan: 'NaN', inf: '∞', '-inf': `${MINUS}∞` }[value];
  }
  if (Number.isInteger(value) && Math.abs(value) < 1e6) {
    return String(value).replace('-', MINUS);
  }
  const size = Math.abs(value);
  const text = size >= 1e-3 && size < 1e5 ? String(+value.toPrecision(3)) : value.toExponential(1);
  return text.replace(/-/g, MINUS);
}

/** A size in bytes with a unit: 4.2 kB. */
export function formatBytes(bytes: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  const rank = bytes < 1000 ? 0 : Math.min(Math.floor(Math.log10(bytes) / 3), units.length - 1);
  const value = bytes / 1000 ** rank;
  return `${value < 10 && rank > 0 ? value.toFixed(1) : Math.round(value)} ${units[rank]}`;
}

/** The numbers of all steps, which count from 0 as `run[4]` does: 0–4 of five. */
export function stepNumbers(steps: number): string {
  return steps > 1 ? `0–${steps - 1}` : '0';
}

/** The numbers that can be drawn. */
export function finite(values: readonly Number[]): number[] {
  return values.filter((value): value is number => typeof value === 'number' && Number.isFinite(value));
}
