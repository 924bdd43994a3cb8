import { readFileSync } from 'node:fs';
import * as z from 'zod';

interface Instruction {
  /** In capitals: `COPY`. */
  readonly word: string;
  readonly rest: string;
}

interface Stage {
  readonly base: string;
  readonly name: string | null;
  readonly instructions: readonly Instruction[];
}

/**
 * A Dockerfile's stages in order; comments are left out, and continued lines are one. Throws for one that it cannot
 * read.
 */
export function readDockerfile(path: string): readonly Stage[] {
  const lines = readFileSync(path, 'utf8')
    .split('\n')
    .filter((line) => !line.startsWith('#'))
    .join('\n')
    .replaceAll(/\\\n\s*/g, '')
    .split('\n')
    .filter((line) => line.trim() !== '');
  const stages: { base: string; name: string | null; instructions: Instruction[] }[] = [];
  for (const line of lines) {
    const [, word = '', rest = ''] = /^([A-Z]+)\s+(.*)$/.exec(line) ?? [];
    if (word === '') throw new Error(`expected an instruction, got: ${line}`);
    if (word === 'FROM') {
      const [base = '', , name = null] = rest.split(' ');
      stages.push({ base, name, instructions: [] });
      continue;
    }
    stages.at(-1)?.instructions.push({ word, rest });
  }
  return stages;
}

/** What all instructions of that word say. */
export function saidBy(stage: Stage, word: string): readonly string[] {
  return stage.instructions.filter((one) => one.word === word).map(({ rest }) => rest);
}

/**
 * The arguments of the only instruction of that word. Throws where it is not in exec form: a shell takes no signals.
 */
export function execForm(stage: Stage, word: string): readonly string[] {
  const [rest = ''] = saidBy(stage, word);
  return z.array(z.string()).parse(JSON.parse(rest.replace(/^.*?(?=\[)/, '')));
}
