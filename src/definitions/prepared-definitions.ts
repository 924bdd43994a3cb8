import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { programFile } from '../core/program-files.ts';
import type { DefinitionFile } from './definition-file.ts';

/** A file that was read and checked when the program was built. */
interface PreparedDefinition {
  readonly file: DefinitionFile;
  readonly contentHash: string;
}

/** By the SHA-256 of their text. */
export type PreparedDefinitions = Readonly<Record<string, PreparedDefinition>>;

let prepared: PreparedDefinitions | null = null;

/**
 * What a definition file of this text says, when a build has already found nothing wrong with it; else null: then it has to
 * be read as YAML and checked, which for the definitions that come with the program takes longer than everything else in a start.
 */
export function preparedDefinition(text: string): PreparedDefinition | null {
  prepared ??= readPrepared();
  return prepared[hashOfText(text)] ?? null;
}

export function hashOfText(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

/** The sources are read as they are: what an earlier build has checked may not pass the checks of today. */
function readPrepared(): PreparedDefinitions {
  if (import.meta.url.endsWith('.ts')) return {};
  try {
    // `as`: the build wrote it from files that passed all checks.
    return JSON.parse(readFileSync(programFile('dist/definitions.json'), 'utf8')) as PreparedDefinitions;
  } catch {
    // Without it every file is read as YAML, with the same result.
    return {};
  }
}
