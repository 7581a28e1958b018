import type { Number as Weight } from '../../schema';

/** The weights that were read from a picture; each pixel stands for a block of entries. */
export interface Pixels {
  width: number;
  height: number;
  /** The pixels as drawn. */
  rgba: Uint8ClampedArray;
  /** From 0 to 1, as a share of the darkest colour; NaN for padding, masked entries, and entries that are not finite. */
  shares: Float32Array;
  /** Entries that are not finite, by the index of the pixel. */
  words: Map<number, Weight>;
}

/** The colours from pale to dark, as 24-bit numbers. */
export function coloursOf(digits: string): number[] {
  return (digits.match(/[0-9a-f]{6}/gi) ?? []).map(six => parseInt(six, 16));
}

/** Reads the weights of a picture from its colours. */
export async function readPixels(
  source: string,
  colours: number[],
  special: { [word: string]: string }
): Promise<Pixels> {
  const image = new Image();
  image.src = source;
  await image.decode();
  const { naturalWidth: width, naturalHeight: height } = image;
  const canvas = document.createElement('canvas');
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext('2d', { willReadFrequently: true });
  if (!context) {
    throw new Error('the browser has no 2D canvas');
  }
  context.drawImage(image, 0, 0);
  return decode(context.getImageData(0, 0, width, height), colours, special);
}

export function decode(
  { width, height, data }: Pick<ImageData, 'width' | 'height' | 'data'>,
  colours: number[],
  special: { [word: string]: string }
): Pixels {
  const shares = new Map(colours.map((colour, i) => [colour, i / Math.max(1, colours.length - 1)]));
  const named = new Map(Object.entries(special).map(([word, six]) => [parseInt(six, 16), word as Weight]));
  const made: Pixels = {
    width,
    height,
    rgba: data,
    shares: new Float32Array(width * height).fill(NaN),
    words: new Map()
  };
  for (let i = 0; i < width * height; i++) {
    const colour = (data[4 * i] << 16) | (data[4 * i + 1] << 8) | data[4 * i + 2];
    if (data[4 * i + 3] === 255) {
      const word = named.get(colour);
      if (word === undefined) {
        made.shares[i] = shares.get(colour) ?? nearest(colour, colours);
      } else {
        made.words.set(i, word);
      }
    }
  }
  return made;
}

/** A picture with each pixel in the colour of its share; pixels without a share stay as they are. */
export function paint(pixels: Pixels, shares: Float32Array, colours: number[]): string {
  const canvas = document.createElement('canvas');
  canvas.width = pixels.width;
  canvas.height = pixels.height;
  const data = new Uint8ClampedArray(pixels.rgba);
  shares.forEach((share, i) => {
    if (!Number.isNaN(share)) {
      data.set(rgb(shade(share, colours)), 4 * i);
    }
  });
  canvas.getContext('2d')?.putImageData(new ImageData(data, pixels.width, pixels.height), 0, 0);
  return canvas.toDataURL();
}

/** The colour of a share. */
export function shade(share: number, colours: number[]): number {
  const last = colours.length - 1;
  return colours[Math.round(Math.min(1, Math.max(0, share)) * last)];
}

export function rgb(colour: number): [number, number, number] {
  return [colour >> 16, (colour >> 8) & 255, colour & 255];
}

/** The share of the nearest colour: some browsers change colours a little, to prevent fingerprinting. */
function nearest(colour: number, colours: number[]): number {
  const wanted = rgb(colour);
  const distance = (other: number) => rgb(other).reduce((sum, part, i) => sum + (part - wanted[i]) ** 2, 0);
  const best = colours.reduce((a, b, i) => (distance(b) < distance(colours[a]) ? i : a), 0);
  return best / Math.max(1, colours.length - 1);
}
