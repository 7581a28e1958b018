/**
 * Which loop a run is of. A cell has another number each time it runs, so its number does not count.
 *
 * Loops of the same name in the same line of two cells are taken for one: the list does not say which cell it was.
 */
export function familyOf({ name, place }: { name: string; place: string }): string {
  return JSON.stringify([name, place.replace(/^cell \d+/, 'cell')]);
}
