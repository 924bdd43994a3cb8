import type { Note } from './check-names.ts';
import type { YamlPath } from './read-yaml.ts';
import { placeName } from './sound-rest.ts';

/** Places of a file that do not say what they should. */
interface BrokenPlaces {
  /** Whether the place is broken, or lies in a broken one. */
  readonly include: (at: YamlPath) => boolean;
  /** Whether the place is broken, or lies in a broken one, or a broken one lies in it. */
  readonly touch: (at: YamlPath) => boolean;
}

/** Asked in time that does not grow with the number of places: a long list may be broken in all its elements. */
export function brokenPlaces(paths: readonly YamlPath[]): BrokenPlaces {
  const broken = new Set(paths.map(placeName));
  const around = new Set(paths.flatMap((path) => outerPlaces(path).map(placeName)));
  const include = (at: YamlPath): boolean => outerPlaces(at).some((outer) => broken.has(placeName(outer)));
  return { include, touch: (at) => include(at) || around.has(placeName(at)) };
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
