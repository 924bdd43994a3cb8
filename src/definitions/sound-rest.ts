import type * as z from 'zod';
import type { YamlPath } from './read-yaml.ts';

/** A repaired object may itself lack members, and so on; no format is nested this deeply. */
const maxRounds = 20;

/** Data of the right shape, and the places where it is not what the file says. */
export interface SoundRest<Value> {
  /** Null when nothing stands in for what the file says. */
  readonly value: Value | null;
  readonly broken: readonly YamlPath[];
}

/**
 * The data with a stand-in for everything of a wrong shape, so that the parts that are right can be held against each
 * other in the same round. Unknown keys are left out. Only for checks through `noteAround`, never to work with.
 */
export function soundRest<Schema extends z.ZodType>(
  schema: Schema,
  data: unknown,
): SoundRest<z.output<Schema>> {
  const root = { data: structuredClone(data) };
  const broken: YamlPath[] = [];
  for (let round = 0; round < maxRounds; round += 1) {
    const parsed = schema.safeParse(root.data);
    if (parsed.success) return { value: parsed.data, broken };
    for (const issue of firstIssues(parsed.error)) {
      if (issue.code === 'unrecognized_keys') {
        leaveOut(root.data, issue);
      } else {
        put(root, ['data', ...issue.path], standIn(issue));
        broken.push(issue.path);
      }
    }
  }
  return { value: null, broken };
}

/** One for each place: a value of the wrong type may miss other marks as well, but they say nothing more. */
export function firstIssues(error: z.core.$ZodError): readonly z.core.$ZodIssue[] {
  const told = new Set<string>();
  return error.issues.filter((issue) => {
    if (issue.code === 'unrecognized_keys' || issue.code === 'custom') return true;
    const place = placeName(issue.path);
    const isFirst = !told.has(place);
    told.add(place);
    return isFirst;
  });
}

function leaveOut(data: unknown, issue: z.core.$ZodIssueUnrecognizedKeys): void {
  let owner = data;
  for (const step of issue.path) {
    owner = isObject(owner) ? Reflect.get(owner, step) : null;
  }
  if (isObject(owner)) {
    for (const key of issue.keys) {
      Reflect.deleteProperty(owner, key);
    }
  }
}

/** Sets a value, with an object for whatever on the way cannot have members. The order of keys stays as it is. */
function put(owner: object, path: YamlPath, value: unknown): void {
  const [step = '', ...rest] = path;
  if (rest.length === 0) {
    Reflect.set(owner, step, value);
    return;
  }
  const inner: unknown = Reflect.get(owner, step);
  if (isObject(inner)) {
    put(inner, rest, value);
  } else {
    const made = {};
    Reflect.set(owner, step, made);
    put(made, rest, value);
  }
}

/** The simplest value that the issue asks for. What it still lacks is an issue of the next round. */
function standIn(issue: z.core.$ZodIssue): unknown {
  switch (issue.code) {
    case 'invalid_type':
      return standInOfType(issue.expected, issue.path);
    case 'invalid_value':
      return issue.values[0];
    case 'invalid_union': {
      if ('options' in issue) return issue.options?.[0];
      // What the first of its shapes asks for.
      const first = issue.errors[0]?.find(({ path }) => path.length === 0);
      return first === undefined ? null : standIn({ ...first, path: issue.path });
    }
    case 'invalid_format':
      return issue.format === 'uuid' ? '00000000-0000-0000-0000-000000000000' : null;
    case 'too_big':
      return issue.maximum;
    case 'too_small':
      if (issue.origin === 'array') return [null];
      return issue.origin === 'string' ? textFor(issue.path) : Number(issue.minimum) + 1;
    case 'custom':
      return issue.params === undefined ? null : issue.params['standIn'];
    case 'invalid_element':
    case 'invalid_key':
    case 'not_multiple_of':
    case 'unrecognized_keys':
      // Not in these formats; where null does not do either, the rounds come to their end.
      return null;
  }
}

function standInOfType(type: string, path: YamlPath): unknown {
  switch (type) {
    case 'string':
      return textFor(path);
    case 'number':
    case 'int':
      return 1;
    case 'boolean':
      return false;
    case 'array':
      return [];
    case 'object':
    case 'record':
      return {};
    default:
      return null;
  }
}

/** No two places get the same text, so that none seems to be named twice. */
function textFor(path: YamlPath): string {
  return `<${path.map(String).join('.')}>`;
}

export function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

/** A text that no other place has. */
export function placeName(path: YamlPath): string {
  return JSON.stringify(path.map(String));
}
