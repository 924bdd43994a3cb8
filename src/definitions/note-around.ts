import type { Note } from './check-names.ts';
import type { YamlPath } from './read-yaml.ts';
import { placeName } from './sound-rest.ts';

type BrokenPlaces = ReturnType<typeof brokenPlaces>;

/**
 * Places of a file that do not say what they should. Asked in time that does not grow with the number of places: a long
 * list may be broken in all its elements.
 */
export function brokenPlaces(paths: readonly YamlPath[]) {
  const broken = new Set(paths.map(placeName));
  const around = new Set(paths.flatMap((path) => outerPlaces(path).map(placeName)));
  /** Whether the place is broken, or lies in a broken one. */
  const include = (at: YamlPath): boolean => outerPlaces(at).some((outer) => broken.has(placeName(outer)));
  /** Whether the place is broken, or lies in a broken one, or a broken one lies in it. */
  const touch = (at: YamlPath): boolean => include(at) || around.has(placeName(at));
  return { include, touch };
}

/**
 * Passes on the problems that are true whatever should stand in the broken places: not those about such a place, and
 * not those that rest on one. `placeOf` says where a place is written, in the terms of the broken ones.
 */
export function noteAround(
  broken: BrokenPlaces,
  placeOf: (at: YamlPath) => YamlPath,
  note: (at: YamlPath, message: string) => void,
): Note {
  return (at, message, ...restsOn) => {
    if (!broken.include(placeOf(at)) && !restsOn.some((other) => broken.touch(placeOf(other)))) {
      note(at, message);
    }
  };
}

/** The file as a whole, the place itself and all between them. */
function outerPlaces(path: YamlPath): readonly YamlPath[] {
  return [...path.map((_, index) => path.slice(0, index)), path];
}
