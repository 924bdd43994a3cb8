import path from 'node:path';
import type { YamlPath } from '../definitions/read-yaml.ts';
import { readSecretFile } from './read-secret-file.ts';

const reference = /\$(\$?)\{([^{}]*)(\}?)/g;
const variable = /^([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?$/s;

interface InterpolateOptions {
  /** Folder that `${file:...}` is relative to. */
  readonly folder: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** A place whose value could not be put in. */
interface Unresolved {
  readonly at: YamlPath;
  readonly message: string;
  /**
   * True where the reference is right and what it names is missing here; false where it is not written as it should be.
   */
  readonly isMissing: boolean;
}

/**
 * Replaces `${NAME}`, `${NAME:-default}` and `${file:path}` in the string values of a parsed file; `$${` stays a
 * literal `${`. Inserted text is not interpolated again. Keys, numbers and flags are left alone. A variable that is
 * missing or empty and a file that cannot be read or that others may read come back as `unresolved`.
 */
export function interpolate(data: unknown, options: InterpolateOptions) {
  const hidden = new Set<string>();
  const unresolved: Unresolved[] = [];
  const files = new Set<string>();
  const put = (found: Found, at: YamlPath): string => {
    if (found.ok) return found.value;
    unresolved.push({ at, message: found.message, isMissing: found.isMissing });
    return '';
  };
  // What holds no reference is not copied: in a large config that is nearly everything.
  const walk = (value: unknown, path: () => YamlPath): unknown => {
    if (typeof value === 'string') {
      if (!value.includes('${')) return value;
      const at = path();
      hidden.add(at.join('.'));
      return value.replaceAll(reference, (whole, escape: string, inner: string, end: string) =>
        escape === '$' ? whole.slice(1) : put(resolve(inner, end, { ...options, files }), at),
      );
    }
    if (Array.isArray(value)) {
      const elements = value.map((element, index) => walk(element, () => [...path(), index]));
      return elements.every((element, index) => element === value[index]) ? value : elements;
    }
    if (typeof value === 'object' && value !== null) {
      let copy: Record<string, unknown> | null = null;
      for (const [key, inner] of Object.entries(value)) {
        const found = walk(inner, () => [...path(), key]);
        if (found !== inner) (copy ??= { ...value })[key] = found;
      }
      return copy ?? value;
    }
    return value;
  };
  return {
    data: walk(data, () => []),
    /** Absolute paths of the secret files. */
    files,
    /** Dotted paths of values that came from outside the file, and so must not be quoted in messages. */
    hidden,
    /** In the order of the file; the text has nothing in their place. */
    unresolved,
  };
}

type Found =
  { readonly ok: true; readonly value: string } | ({ readonly ok: false } & Omit<Unresolved, 'at'>);

function resolve(
  inner: string,
  end: string,
  { folder, env, files }: InterpolateOptions & { readonly files: Set<string> },
): Found {
  if (end === '') return malformed('expected } after ${; write $${ for a literal ${');
  if (inner.startsWith('file:')) {
    const file = path.resolve(folder, inner.slice('file:'.length));
    files.add(file);
    const secret = readSecretFile(file);
    return secret.ok ? secret : missing(secret.why);
  }
  const [, name, fallback] = variable.exec(inner) ?? [];
  if (name === undefined) {
    return malformed('expected ${NAME}, ${NAME:-default} or ${file:path}; write $${ for a literal ${');
  }
  const value = Object.hasOwn(env, name) ? env[name] : undefined;
  if (value !== undefined && value !== '') return { ok: true, value };
  if (fallback !== undefined) return { ok: true, value: fallback };
  const state = value === undefined ? 'not set' : 'empty';
  // No default is advised: most of what is missing is a secret.
  return missing(`the environment variable ${name} is ${state}: export it, or put it into .env`);
}

function malformed(message: string): Found {
  return { ok: false, message, isMissing: false };
}

function missing(message: string): Found {
  return { ok: false, message, isMissing: true };
}
