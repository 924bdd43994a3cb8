import { isJsonArray, isJsonObject, type JsonObject, type JsonValue } from '../../core/json.ts';
import { ProblemsError } from '../../core/problems.ts';
import { readYaml } from '../read-yaml.ts';
import { holdsTemplate, partIn, textIn } from './parts.ts';
import { openSchemas, referenceProblems } from './schemas.ts';

/** What a low-code manifest of the same service states of its streams. */
export interface Manifest {
  /** Fields that are the primary key of a stream, as the service names them; null: none is stated. */
  readonly keyOf: (stream: string) => readonly string[] | null;
  /** The field by which a stream is read incrementally; null: none is stated. */
  readonly cursorOf: (stream: string) => string | null;
}

/** Reads what stands there as plain text; templates are never run. Throws `ProblemsError` DEFINITION_INVALID. */
export function readManifest(file: string): Manifest {
  const yaml = readYaml(file);
  // `as`: the reader of YAML gives JSON and nothing else.
  const root = yaml.data as JsonValue;
  if (yaml.problems.length > 0) throw new ProblemsError('DEFINITION_INVALID', yaml.problems);
  if (!isJsonObject(root) || textIn(root, 'type') !== 'DeclarativeSource') {
    throw new ProblemsError('DEFINITION_INVALID', [
      yaml.problem([], 'expected a low-code manifest.yaml: a document of type DeclarativeSource'),
    ]);
  }
  const problems = referenceProblems(root, yaml.problem).filter(
    ({ message }) => !message.startsWith('expected a part'),
  );
  if (problems.length > 0) throw new ProblemsError('DEFINITION_INVALID', problems);
  const { resolve } = openSchemas(root);
  const streams = new Map<
    string,
    { readonly key: readonly string[] | null; readonly cursor: string | null }
  >();
  for (const stream of objectsIn(root)) {
    // A stream may take what it does not say itself from another one.
    const merged = { ...resolve(stream), ...stream };
    const { $parameters: parameters } = merged;
    const name = textIn(stream, 'name') ?? textIn(parameters, 'name');
    if (merged['type'] !== 'DeclarativeStream' || name === null || holdsTemplate(name) || streams.has(name)) {
      continue;
    }
    const key = keyOf(merged['primary_key'] ?? partIn(parameters, 'primary_key'));
    const sync = merged['incremental_sync'];
    const cursor = textIn(sync, 'cursor_field') ?? textIn(resolve(sync), 'cursor_field');
    streams.set(name, { key, cursor: cursor === null || holdsTemplate(cursor) ? null : cursor });
  }
  return {
    keyOf: (stream) => streams.get(stream)?.key ?? null,
    cursorOf: (stream) => streams.get(stream)?.cursor ?? null,
  };
}

/** Every object, wherever it is. A value behind an anchor is visited once. */
function objectsIn(root: JsonObject): readonly JsonObject[] {
  const found: JsonObject[] = [];
  const seen = new Set<JsonValue>();
  const open: JsonValue[] = [root];
  for (let value = open.pop(); value !== undefined; value = open.pop()) {
    if (typeof value !== 'object' || value === null || seen.has(value)) continue;
    seen.add(value);
    if (isJsonObject(value)) found.push(value);
    open.push(...(isJsonArray(value) ? value : Object.values(value)));
  }
  return found;
}

/** `id`, `[id]` or `[[id]]`; a path into an object is no column. */
function keyOf(value: JsonValue | undefined): readonly string[] | null {
  const parts = typeof value === 'string' ? [value] : isJsonArray(value) ? value : [];
  const names = parts.map((part) => (isJsonArray(part) && part.length === 1 ? part[0] : part));
  const isPlain = names.every(
    (name): name is string => typeof name === 'string' && name !== '' && !holdsTemplate(name),
  );
  return isPlain && names.length > 0 ? names : null;
}
