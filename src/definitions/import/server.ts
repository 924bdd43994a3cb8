import type { JsonObject } from '../../core/json.ts';
import { isJsonObject } from '../../core/json.ts';
import { holdsTemplate, listIn, objectIn, oneLine, partIn, prefix, textIn, textsIn } from './parts.ts';
import type { ServiceFile } from './service-file.ts';

/** The address of the service, and the names in its host that credentials fill. */
export type Server =
  | {
      readonly kind: 'found';
      readonly baseUrl: string;
      readonly host: Readonly<Record<string, JsonObject>>;
      /** The part of the address that a person has to fill in; null: none. */
      readonly open: string | null;
    }
  | { readonly kind: 'refused'; readonly why: string };

const label = '[a-z0-9][a-z0-9-]{0,62}';

export function serverOf({ root }: ServiceFile): Server {
  const [server] = listIn(root, 'servers');
  const url = textIn(server, 'url');
  if (!isJsonObject(server) || url === null) return { kind: 'refused', why: 'the file names no server' };
  const variables = objectIn(server, 'variables');
  const host: Record<string, JsonObject> = {};
  let filled = url;
  const open: string[] = [];
  for (const [, name = ''] of url.matchAll(/\{(\w+)\}/g)) {
    const variable = objectIn(variables, name);
    const stated = textsIn(variable, 'enum');
    const isComputed = holdsTemplate(partIn(server, `${prefix}replication-environment-mapping`, name));
    const isOrigin = url.startsWith(`{${name}}`);
    const choices = isOrigin
      ? stated.map((choice) => choice.replace(/^https:\/\/([^/]+)\/?$/, '$1'))
      : stated;
    const areHosts = choices.every(isHostPart);
    if (!areHosts || (isComputed && choices.length === 0)) {
      // What a program computes from its choices, the file shows by its default alone.
      const fallback = textIn(variable, 'default');
      const shown = isComputed && fallback !== null ? [fallback] : stated;
      const such = shown.length === 0 ? '' : ` (such as ${oneLine(shown.join(', '), 100)})`;
      open.push(
        `write the address of the service, which is ${oneLine(url, 100)} in the file: what stands for ${name}${such}?`,
      );
      filled = filled.replaceAll(`{${name}}`, 'todo');
      continue;
    }
    if (isOrigin) filled = `https://${filled}`;
    host[name] = {
      from: [isOrigin ? { field: name, origin: true } : { field: name }],
      pattern: patternOf(filled, name, choices),
    };
  }
  const whole = /^https?:/.test(filled) ? filled : `https://${filled}`;
  const baseUrl = whole.replace(/\/+$/, '');
  return { kind: 'found', baseUrl, host, open: open.length === 0 ? null : open.join('; ') };
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
