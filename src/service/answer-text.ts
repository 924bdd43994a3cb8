import { writeJson } from '../core/json-text.ts';

/**
 * An answer as JSON; integers that a double cannot hold, which `JSON.stringify` refuses, are written with all their
 * digits.
 */
export function answerText(answer: unknown): string {
  try {
    return JSON.stringify(answer) ?? 'null';
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    return writeJson(answer);
  }
}
