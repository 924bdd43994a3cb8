import type { JsonObject } from '../../core/json.ts';
import { isJsonObject } from '../../core/json.ts';
import { holdsTemplate, listIn, objectIn, oneLine, partIn, prefix, textIn, textsIn } from './parts.ts';
import type { ServiceFile } from './service-file.ts';

/** The address of the service, and the names in its host that credentials fill. */
export type Server =
  | { readonly kind: 'found'; readonly baseUrl: string; readonly host: Readonly<Record<string, JsonObject>> }
  | {
      readonly kind: 'asked';
      readonly variable: string;
      readonly why: string;
      readonly choices: readonly string[];
      readonly isWrong?: true;
    }
  | { readonly kind: 'refused'; readonly why: string };

const label = '[a-z0-9][a-z0-9-]{0,62}';

/** `answers`: values of variables that a person gave. */
export function serverOf({ root }: ServiceFile, answers: Readonly<Record<string, string>>): Server {
  const [server] = listIn(root, 'servers');
  const url = textIn(server, 'url');
  if (!isJsonObject(server) || url === null) return { kind: 'refused', why: 'the file names no server' };
  const variables = objectIn(server, 'variables');
  const host: Record<string, JsonObject> = {};
  let filled = url;
  for (const [, name = ''] of url.matchAll(/\{(\w+)\}/g)) {
    const variable = objectIn(variables, name);
    const stated = textsIn(variable, 'enum');
    const isComputed = holdsTemplate(partIn(server, `${prefix}replication-environment-mapping`, name));
    if (Object.hasOwn(answers, name)) {
      const answer = answers[name] ?? '';
      const isKnown = stated.some((one) => one === answer || one === `https://${answer}`);
      if (stated.length > 0 && !isComputed && !isKnown) {
        const why = `expected one of ${oneLine(stated.join(', '), 200)}, got ${oneLine(answer, 40)}`;
        return { kind: 'asked', variable: name, why, choices: stated, isWrong: true };
      }
      const isUsable = isHostPart(answer) || /^https:\/\/[a-z0-9.-]+\/?$/.test(answer);
      if (!isUsable && !url.slice(url.indexOf('//') + 2).includes(`/{${name}}`)) {
        const why = `${whatStandsFor(name, url)} "${oneLine(answer, 40)}" can be no part of a host`;
        return { kind: 'asked', variable: name, why, choices: [], isWrong: true };
      }
      filled = filled.replaceAll(`{${name}}`, () => answers[name] ?? '');
      continue;
    }
    const isOrigin = url.startsWith(`{${name}}`);
    const choices = isOrigin
      ? stated.map((choice) => choice.replace(/^https:\/\/([^/]+)\/?$/, '$1'))
      : stated;
    const areHosts = choices.every(isHostPart);
    if (!areHosts || (isComputed && choices.length === 0)) {
      // What a program computes from its choices, the file shows by its default alone.
      const fallback = textIn(variable, 'default');
      const shown = isComputed && fallback !== null ? [fallback] : stated;
      return { kind: 'asked', variable: name, why: whatStandsFor(name, url), choices: shown };
    }
    if (isOrigin) filled = `https://${filled}`;
    host[name] = {
      from: [isOrigin ? { field: name, origin: true } : { field: name }],
      pattern: patternOf(filled, name, choices),
    };
  }
  const baseUrl = filled.replace(/\/+$/, '');
  return { kind: 'found', baseUrl, host };
}

function whatStandsFor(name: string, url: string): string {
  return `the address of the service is ${oneLine(url, 100)}: what stands for ${name}?`;
}

function isHostPart(text: string): boolean {
  return /^[a-z0-9][a-z0-9.-]*$/.test(text);
}

/** A name that is the whole host has dots in it. */
function patternOf(url: string, name: string, choices: readonly string[]): string {
  if (choices.length > 0) return choices.map((choice) => choice.replaceAll('.', String.raw`\.`)).join('|');
  const isWhole = new RegExp(`^https?://\\{${name}\\}(?:[/:]|$)`).test(url);
  return isWhole ? String.raw`${label}(\.${label}){1,5}` : label;
}
