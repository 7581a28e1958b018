const FLOOR = 1e-8;

/**
 * The column of each row on the monotonic path with the largest product of weights (Viterbi 1967).
 *
 * @param weights - row by row, `width` in each line; only the first `rows` and `cols` count
 */
export function bestPath(weights: Float32Array, width: number, rows: number, cols: number): number[] {
  if (rows === 0 || cols === 0) {
    return [];
  }
  const came = new Int32Array(rows * cols);
  let scores = new Float64Array(cols);
  for (let row = 0; row < rows; row++) {
    const next = new Float64Array(cols);
    let best = 0;
    for (let col = 0; col < cols; col++) {
      best = scores[col] >= scores[best] ? col : best; // in the first row, with equal scores: the column itself
      came[row * cols + col] = best;
      next[col] = scores[best] + Math.log(Math.max(weights[row * width + col] || 0, FLOOR));
    }
    scores = next;
  }
  let col = scores.indexOf(Math.max(...scores));
  const path = [col];
  for (let row = rows - 1; row > 0; row--) {
    col = came[row * cols + col];
    path.unshift(col);
  }
  return path;
}

const [CLEAR, FLAT] = [0.5, 0.8];

/** The path if it is clear: it moves forward, and its weights add up to at least half of the sum of row maxima. */
export function clearPath(weights: Float32Array, width: number, rows: number, cols: number, entropy: number): number[] {
  const inside = Array.from({ length: rows }, (_, row) => weights.subarray(row * width, row * width + cols));
  if (rows < 3 || cols < 2 || !(entropy <= FLAT)) {
    return [];
  }
  const path = bestPath(weights, width, rows, cols);
  const caught = sum(path.map((col, row) => inside[row][col] || 0));
  const largest = sum(inside.map(line => line.reduce((most, share) => Math.max(most, share || 0), 0)));
  return caught >= CLEAR * largest && path[rows - 1] > path[0] ? path : [];
}

function sum(numbers: number[]): number {
  return numbers.reduce((total, n) => total + n, 0);
}
