import path from 'node:path';
import * as z from 'zod';
import { gatherConnectors, isMembers, memberOf, type Members, readWritten } from './config-files.ts';
import { missingHere } from './texts.ts';
import { settingsFile } from './settings-file.ts';
import type { NotifySettings } from './settings.ts';

interface ConfigPlace {
  readonly file: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/**
 * A valid config as plain data for people, in the terms of the file: with the defaults of its schema and of `defaults`,
 * without secrets and without values that are missing here.
 */
export function configView({ file, env }: ConfigPlace): Readonly<Record<string, unknown>> {
  const config = gatherConnectors(readWritten(file, undefined, env), env);
  const { defaults: _, ...written } = config.data as Members;
  const unresolved = config.files.flatMap((one) => one.unresolved.map(({ at }) => at.join('.')));
  // Only a definition says which settings are secret, and those are references.
  const referred = Object.entries(memberOf(written, 'connectors')).flatMap(([name, connector]) =>
    Object.keys(memberOf(connector, 'settings'))
      .map((setting) => ['connectors', name, 'settings', setting])
      .filter(config.isFromOutside)
      .map((at) => [at.join('.'), '[secret]'] as const),
  );
  // `as`: the schema of an object shows an object.
  const schema = z.toJSONSchema(settingsFile, { io: 'input' }) as Shape;
  const shown = shownValue(
    written,
    schema,
    '',
    new Map([...referred, ...unresolved.map((at) => [at, '[missing]'] as const)]),
  ) as Members;
  return { file: path.resolve(file), ...shown };
}

/** The part of a JSON Schema that determines which values are shown. */
interface Shape {
  readonly type?: string;
  readonly const?: unknown;
  readonly default?: unknown;
  /** A secret. */
  readonly writeOnly?: boolean;
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, Shape>>;
  readonly additionalProperties?: Shape | false;
  readonly items?: Shape;
  readonly anyOf?: readonly Shape[];
  readonly oneOf?: readonly Shape[];
}

/**
 * Undefined where the file has no value and the schema no default. `replaced`: the texts that are shown in place of
 * values, by dotted path.
 */
function shownValue(
  value: unknown,
  shape: Shape,
  at: string,
  replaced: ReadonlyMap<string, string>,
): unknown {
  const given = value ?? shape.default ?? undefined;
  const instead = replaced.get(at);
  if (instead !== undefined) return instead;
  if (given === undefined) return undefined;
  if (shape.writeOnly === true) return '[secret]';
  const shapes = shape.anyOf ?? shape.oneOf;
  if (shapes !== undefined) {
    return shownValue(given, shapes.find((one) => fits(given, one)) ?? {}, at, replaced);
  }
  if (Array.isArray(given)) {
    return given.map((one, index) => shownValue(one, shape.items ?? {}, `${at}.${index}`, replaced));
  }
  if (typeof given === 'string') return withoutUser(given);
  if (!isMembers(given)) return given;
  const { properties = {}, additionalProperties } = shape;
  const names = new Set([...Object.keys(properties), ...Object.keys(given)]);
  const entries = [...names].map((name) => {
    const place = at === '' ? name : `${at}.${name}`;
    const known = Object.hasOwn(properties, name) ? properties[name] : undefined;
    return [name, shownValue(given[name], known ?? (additionalProperties || {}), place, replaced)] as const;
  });
  return Object.fromEntries(entries.filter(([, one]) => one !== undefined));
}

function fits(value: unknown, { type, required = [], properties = {} }: Shape): boolean {
  if (!isMembers(value)) return type === (Number.isInteger(value) ? 'integer' : typeof value);
  const kind = properties['type']?.const;
  return (
    type === 'object' && required.every((name) => name in value) && (kind ?? value['type']) === value['type']
  );
}

/** Removes the parts of an address that may be secret: user, password and options. */
function withoutUser(text: string): string {
  return text.replace(
    /^\s*([a-z][a-z0-9+.-]*:\/\/)([^/?#]*@)?([^?#]*).*$/is,
    (_, scheme: string, user: string | undefined, place: string) =>
      `${scheme}${user === undefined ? '' : '[secret]@'}${place}`,
  );
}

/** The destination of a channel of `notify`, without the parts of its address that may be secret. */
export function shownPlace(channel: NotifySettings): string {
  if (channel.type === 'email') return `${channel.server} to ${channel.to.join(', ')}`;
  const text = channel.url.reveal();
  return text === missingHere ? '[missing]' : `${new URL(text).origin}/[secret]`;
}
