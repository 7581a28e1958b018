/** The part of JupyterLab's translation bundle that is used here. */
export interface Words {
  __(text: string, ...args: (string | number)[]): string;
  _n(one: string, many: string, n: number, ...args: (string | number)[]): string;
}

/** English, as it stands in the code, with %1, %2, … filled in. */
export const PLAIN: Words = {
  __: fill,
  _n: (one, many, n, ...args) => fill(n === 1 ? one : many, n, ...args)
};

function fill(text: string, ...args: (string | number)[]): string {
  return text.replace(/%(\d)/g, (whole, n) => String(args[Number(n) - 1] ?? whole));
}
