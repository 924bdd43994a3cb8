import * as z from 'zod';
import { ProblemsError, type Problem } from '../core/problems.ts';
import { servedDefinition, type Definition } from '../definitions/definition.ts';
import type { Note } from '../definitions/check-names.ts';
import type { Masks } from '../definitions/record-masks.ts';
import { parseShape, strictObject } from '../definitions/schema-problems.ts';
import { noSuch } from '../definitions/suggest-name.ts';
import { buildMasks } from './mask-settings.ts';
import { readWritten } from './config-files.ts';
import { connectorMask, maskFile } from './settings-file.ts';

/** The format of the file: masks as in a config, by connector type. */
const servedMasksFile = strictObject({
  mask: maskFile.prefault({}),
  types: z.record(z.string(), strictObject({ mask: connectorMask })),
});

interface LoadServedMasksOptions {
  readonly file: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The served definitions by name. */
  readonly definitions: ReadonlyMap<string, Definition>;
}

/**
 * The masks of a server by the name of a definition, with their key. Throws `ProblemsError` CONFIG_INVALID with
 * everything that is wrong in the file or missing here.
 */
export function loadServedMasks({ file, env, definitions }: LoadServedMasksOptions) {
  const written = readWritten(file, undefined, env);
  const { yaml, data, unresolved, isFromOutside } = written;
  if (yaml.problems.length > 0) throw invalid(yaml.problems);
  const lacking = unresolved.map(({ at, message }) => yaml.problem(at, message));
  if (lacking.length > 0) throw invalid(lacking);
  const shape = parseShape(servedMasksFile, data, written, (at) => !isFromOutside(at));
  if (shape.problems.length > 0 || shape.value === null) throw invalid(shape.problems);
  const { key } = shape.value.mask;
  const problems: Problem[] = [];
  const masks = new Map<string, Masks>();
  for (const [name, one] of Object.entries(shape.value.types)) {
    const at = ['types', name];
    const found = definitions.get(name);
    if (found === undefined) {
      problems.push(written.problem(at, noSuch('connector type', name, [...definitions.keys()])));
      continue;
    }
    const definition = servedDefinition(found);
    // Clients may read any entity, in every way that the definition describes.
    const entities = new Map(
      [...definition.entities].map(([entity, { parents }]) => [
        entity,
        { parents: parents.map((parent) => parent.entity) },
      ]),
    );
    const note: Note = (place, message) => void problems.push(written.problem(place, message));
    masks.set(name, buildMasks({ file: one, definition, entities, key, at, note, isServed: true }));
  }
  if (problems.length > 0) throw invalid(problems);
  return { key, masks };
}

function invalid(problems: readonly Problem[]): ProblemsError {
  return new ProblemsError('CONFIG_INVALID', problems, 'The masks are');
}
