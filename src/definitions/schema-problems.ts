import * as z from 'zod';
import type { JsonValue } from '../core/json.ts';
import type { Problem } from '../core/problems.ts';
import { suggestName } from './suggest-name.ts';
import type { YamlFile, YamlPath } from './read-yaml.ts';

/** An object whose unknown keys are errors that name the key they are closest to. */
export function strictObject<Shape extends z.ZodRawShape>(shape: Shape): z.ZodObject<Shape, z.core.$strict> {
  const known = Object.keys(shape);
  // One line per key, in the order of `issue.keys`: `problemsOf` makes one problem of each.
  return z.strictObject(shape, {
    error: (issue) =>
      issue.code === 'unrecognized_keys'
        ? issue.keys.map((key) => unknownKey(key, known)).join('\n')
        : undefined,
  });
}

/** Any value of a file, as the other rooms know values. */
export function jsonValue(): z.ZodType<JsonValue> {
  return z.json();
}

export function names(): z.ZodArray<z.ZodString> {
  return z.array(z.string());
}

/** A text that `read` converts; `note` takes the problem with it. */
export function textAs<Value>(
  read: (text: string, note: (message: string) => void) => Value,
  text = z.string(),
): z.ZodPipe<z.ZodString, z.ZodTransform<Value, string>> {
  return text.transform((given, context) =>
    // `continue`: a union that no other shape fits reports the problems of this one.
    read(given, (message) => context.addIssue({ code: 'custom', message, continue: true })),
  );
}

function unknownKey(key: string, known: readonly string[]): string {
  const suggestion = suggestName(key, known);
  return `unknown key${suggestion === '' ? `; expected one of ${known.join(', ')}` : suggestion}`;
}

/**
 * Parses a file's data and returns all problems with its shapes; `value` is null if there are any. `mayShow` says
 * whether the value at a path may be quoted: one that came from the environment or a secret file may not.
 */
export function parseShape<Schema extends z.ZodType>(
  schema: Schema,
  data: unknown,
  yaml: Pick<YamlFile, 'problem'>,
  mayShow: (path: YamlPath) => boolean = () => true,
): { readonly value: z.output<Schema> | null; readonly problems: readonly Problem[] } {
  const parsed = schema.safeParse(data);
  if (parsed.success) return { value: parsed.data, problems: [] };
  const problems = firstIssues(parsed.error).flatMap((issue) => problemsOf(issue, data, yaml, mayShow));
  return { value: null, problems };
}

/**
 * Keeps one issue for each place: a value of the wrong type may fail other checks as well, but they add no information.
 */
function firstIssues(error: z.core.$ZodError): readonly z.core.$ZodIssue[] {
  const told = new Set<string>();
  return error.issues.filter((issue) => {
    if (issue.code === 'unrecognized_keys' || issue.code === 'custom') return true;
    const place = JSON.stringify(issue.path.map(String));
    const isFirst = !told.has(place);
    told.add(place);
    return isFirst;
  });
}

function problemsOf(
  issue: z.core.$ZodIssue,
  data: unknown,
  yaml: Pick<YamlFile, 'problem'>,
  mayShow: (path: YamlPath) => boolean,
): readonly Problem[] {
  if (issue.code === 'unrecognized_keys') {
    const messages = issue.message.split('\n');
    return issue.keys.map((key, index) =>
      yaml.problem([...issue.path, key], messages[index] ?? 'unknown key'),
    );
  }
  // One text may stand for a list of one: the problem is then with that text.
  const outer = issue.path.slice(0, -1);
  const isAlone = typeof issue.path.at(-1) === 'number' && typeof writtenAt(data, outer) === 'string';
  return [
    yaml.problem(
      isAlone ? outer : issue.path,
      describeIssue(issue, writtenAt(data, issue.path), mayShow(issue.path)),
    ),
  ];
}

function describeIssue(issue: z.core.$ZodIssue, value: unknown, mayShow: boolean): string {
  const expected = expectedOf(issue);
  if (expected === null) return issue.message;
  if (value === undefined) return `is missing; expected ${expected}`;
  if (issue.code === 'invalid_value' && typeof value === 'string' && mayShow) {
    const suggestion = suggestName(value, issue.values.map(String));
    return `expected ${expected}, got ${JSON.stringify(value)}${suggestion}`;
  }
  if (issue.code === 'too_big' || issue.code === 'too_small') {
    return `expected ${expected}, got ${mayShow ? sizeOf(value) : 'another value'}`;
  }
  return `expected ${expected}, got ${typeName(value)}`;
}

/** Null where the schema itself has the better words. */
function expectedOf(issue: z.core.$ZodIssue): string | null {
  if (issue.code === 'invalid_type') {
    const [, own = null] = /^expected (.+)$/.exec(issue.message) ?? [];
    if (own !== null) return own;
    return issue.expected === 'record' ? 'an object' : article(issue.expected);
  }
  if (issue.code === 'invalid_value') return `one of ${issue.values.map(String).join(', ')}`;
  if (issue.code === 'too_big') {
    return `${issue.inclusive === false ? 'less than' : 'at most'} ${issue.maximum}${unitOf(issue.origin)}`;
  }
  if (issue.code === 'too_small') {
    return `${issue.inclusive === false ? 'more than' : 'at least'} ${issue.minimum}${unitOf(issue.origin)}`;
  }
  return null;
}

function article(type: string): string {
  if (type === 'int') return 'a whole number';
  return /^[aeio]/.test(type) ? `an ${type}` : `a ${type}`;
}

function unitOf(origin: string): string {
  if (origin === 'string') return ' characters';
  return origin === 'array' ? ' elements' : '';
}

function sizeOf(value: unknown): string {
  if (typeof value === 'number') return String(value);
  return String(typeof value === 'string' || Array.isArray(value) ? value.length : 0);
}

function typeName(value: unknown): string {
  if (value === null) return 'nothing';
  return Array.isArray(value) ? 'an array' : article(typeof value);
}

/** The value at a path of the file. Where a text is short for `{ type: text }`, that text is its `type`. */
function writtenAt(data: unknown, path: YamlPath): unknown {
  let value = data;
  for (const step of path) {
    if (typeof value === 'string' && step === 'type') return value;
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, step)) return undefined;
    value = Reflect.get(value, step);
  }
  return value;
}

/** Names the kinds in the order in which they are declared. */
export function expectedKind(
  kinds: readonly { readonly shape: { readonly kind: { readonly value: string } } }[],
): string {
  const names = kinds.map(({ shape }) => shape.kind.value);
  return `expected kind: ${names.slice(0, -1).join(', ')} or ${names.at(-1) ?? ''}`;
}
