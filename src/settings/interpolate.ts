import path from 'node:path';
import type { YamlPath } from '../definitions/read-yaml.ts';
import { readSecretFile } from './read-secret-file.ts';

const reference = /\$(\$?)\{([^{}]*)(\}?)/g;
const variable = /^([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?$/s;

interface InterpolateOptions {
  /** Folder that `${file:...}` is relative to. */
  readonly folder: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly note: (path: YamlPath, message: string) => void;
}

interface Interpolated {
  readonly data: unknown;
  /** Dotted paths of values that came from outside the file, and so must not be quoted in messages. */
  readonly hidden: ReadonlySet<string>;
  /** Places of values that could not be put in; each was noted. */
  readonly unresolved: readonly YamlPath[];
}

/**
 * Replaces `${NAME}`, `${NAME:-default}` and `${file:path}` in the string values of a parsed file; `$${` stays a
 * literal `${`. What is put in is not looked at again. Keys, numbers and flags are left alone. A variable that is
 * missing or empty and a file that cannot be read or that others may read are noted.
 */
export function interpolate(data: unknown, options: InterpolateOptions): Interpolated {
  const hidden = new Set<string>();
  const unresolved: YamlPath[] = [];
  const note: InterpolateOptions['note'] = (at, message) => {
    unresolved.push(at);
    options.note(at, message);
  };
  const walk = (value: unknown, at: YamlPath): unknown => {
    if (typeof value === 'string') {
      if (value.includes('${')) {
        hidden.add(at.join('.'));
      }
      return value.replaceAll(reference, (whole, escape: string, inner: string, end: string) =>
        escape === '$' ? whole.slice(1) : resolve(inner, end, at, { ...options, note }),
      );
    }
    if (Array.isArray(value)) {
      return value.map((element, index) => walk(element, [...at, index]));
    }
    if (typeof value === 'object' && value !== null) {
      return Object.fromEntries(
        Object.entries(value).map(([key, inner]) => [key, walk(inner, [...at, key])]),
      );
    }
    return value;
  };
  return { data: walk(data, []), hidden, unresolved };
}

function resolve(inner: string, end: string, at: YamlPath, options: InterpolateOptions): string {
  if (end === '') {
    options.note(at, 'expected } after ${; write $${ for a literal ${');
    return '';
  }
  if (inner.startsWith('file:')) {
    const secret = readSecretFile(path.resolve(options.folder, inner.slice('file:'.length)));
    if (!secret.ok) {
      options.note(at, secret.why);
      return '';
    }
    return secret.value;
  }
  const [, name, fallback] = variable.exec(inner) ?? [];
  if (name === undefined) {
    options.note(at, 'expected ${NAME}, ${NAME:-default} or ${file:path}; write $${ for a literal ${');
    return '';
  }
  const value = Object.hasOwn(options.env, name) ? options.env[name] : undefined;
  if (value !== undefined && value !== '') {
    return value;
  }
  if (fallback === undefined) {
    const state = value === undefined ? 'not set' : 'empty';
    options.note(at, `the environment variable ${name} is ${state}; set it or write \${${name}:-default}`);
    return '';
  }
  return fallback;
}
