import { isJsonObject, type JsonObject, type JsonValue } from '../../../../src/core/json.ts';
import type { ToWire } from '../wire-account.ts';

export interface NotionWireOptions {
  readonly workspaceId: string;
  /** Where the addresses of pages and data sources lead; the service moved them all in April 2026. */
  readonly urlBase: () => string;
}

/** What API version 2025-09-03 sends and the sample account does not, and the other way round. */
export function notionWire(options: NotionWireOptions): ToWire {
  return (entity, record) => {
    switch (entity) {
      case 'users':
        return userToWire(record, options.workspaceId);
      case 'pages':
        return { ...record, url: moved(record['url'], options) };
      case 'data_sources': {
        const { is_archived: _archived, is_locked: _locked, properties, ...rest } = record;
        return { ...rest, properties: described(properties), url: moved(record['url'], options) };
      }
      default:
        return record;
    }
  };
}

function userToWire(record: JsonObject, workspaceId: string): JsonObject {
  const { bot, person } = record;
  if (isJsonObject(person) && 'email' in person) {
    return { ...record, person: { ...person, email_verified: true } };
  }
  if (!isJsonObject(bot)) return record;
  const workspace_limits = { max_file_upload_size_in_bytes: 5_242_880 };
  return { ...record, bot: { ...bot, workspace_id: workspaceId, workspace_limits } };
}

function moved(url: JsonValue | undefined, { urlBase }: NotionWireOptions): JsonValue {
  return typeof url === 'string' ? url.replace('https://notes.example.test', urlBase()) : null;
}

/** Every property of a data source has a description, which is mostly null. */
function described(properties: JsonValue | undefined): JsonValue {
  if (!isJsonObject(properties)) return properties ?? null;
  return Object.fromEntries(
    Object.entries(properties).map(([name, property]) => [
      name,
      isJsonObject(property) ? { ...property, description: null } : property,
    ]),
  );
}
