import { hash } from 'node:crypto';
import type { JsonObject } from '../core/json.ts';
import type { Params } from '../core/records.ts';
import { notFound } from '../service/api-error.ts';
import { accountOf, computedListing, entityOf, knownThing, remembered } from './sample-account.ts';
import { type EntityOptions, type Listing, type SampleAccount, timeTest } from './sample-account.ts';
import { type SampleEntity, type SampleSize, type Thing, Things } from './sample-account.ts';
import { dayMs, type Dice, diceFor, hourMs, isoSeconds, personAt, readSample } from './sample-values.ts';
import { revisionTime, sampleStart, textOf, type Values } from './sample-values.ts';

const sample = readSample('email-marketing');

/** The account behind an email-marketing connector. */
export function openMailingAccount(seed: number, size: SampleSize, revision: number): SampleAccount {
  const idOf = (kind: string, dice: Dice, index: number): string =>
    kind === 'segments' ? String(13_000_000 + (index % 10_000_000)) : dice.hex(10);
  const things = new Things(seed, sample, idOf, []);
  const shape = typeof size === 'string' ? shapes[size] : { ...shapes.members, members: [size.members] };
  fillMailing(things, shape);
  things.play(revision, reviseMailing);
  const mailing = mailingOf(things);
  const [lists, rules] = [listsOf(mailing), rulesOf(mailing)];
  return accountOf(
    Object.entries(sample.entities).map(([name, { of = name, ...options }]) => {
      const record = (one: Thing): JsonObject => recordOf(mailing, name, one);
      const list = lists[name];
      const listed =
        list === undefined ? entityOf(things, of, record, { ...options, ...rules[name] }) : { list };
      return [name, linked(listed)];
    }),
  );
}

/** Listings of something other than the things of a kind. */
function listsOf(mailing: Mailing): Readonly<Record<string, SampleEntity['list']>> {
  const { things, campaignOf, membersIn } = mailing;
  const sentIn = ({ campaign_id: id }: Params): Campaign => {
    const campaign = campaignOf(knownThing(things, 'campaigns', id));
    if (campaign.sentAt !== null) return campaign;
    // A draft has no report and nothing under it: 404, as for a campaign that does not exist.
    throw notFound('Resource Not Found: there is no report with this id in the account.');
  };
  return {
    email_activity: (params) => activityListing(sentIn(params), params),
    unsubscribes: (params) => leaverListing(sentIn(params)),
    segment_members: ({ segment_id: id }) =>
      computedListing(membersIn(knownThing(things, 'segments', id)), (one) =>
        recordOf(mailing, 'people', one),
      ),
  };
}

/** Rules of single entities, besides those in the sample's file. */
function rulesOf(mailing: Mailing): Readonly<Record<string, EntityOptions>> {
  const { things, campaignOf } = mailing;
  return {
    lists: {
      where: (one, { email }) =>
        email === undefined || memberNamed(things, one, memberId(textOf(email))) !== undefined,
    },
    reports: { where: (campaign) => campaignOf(campaign).sentAt !== null },
    list_members: {
      id: ({ list_id: id, subscriber_hash: wanted }) =>
        memberNamed(things, knownThing(things, 'lists', id), textOf(wanted).toLowerCase()),
      facts: memberFacts,
      where: (one, params) => passesFilters(mailing, one, params),
    },
    tags: {
      where: ({ type, text }, { name }) =>
        type === 'static' && text.toLowerCase().startsWith(textOf(name).toLowerCase()),
    },
  };
}

type Mailing = ReturnType<typeof mailingOf>;

/** Facts that records of several things are made from, each made once. */
function mailingOf(things: Things) {
  const slotsOf = remembered((segment: Thing) => slotsIn(things, segment));
  const membersIn = remembered((segment: Thing) => {
    const slots = slotsOf(segment);
    const all = segment.parent === null ? [] : things.of('list_members', segment.parent);
    return all.filter((one) => one.type === 'subscribed' && slots.has(slotOf(one)));
  });
  /**
   * Tags and interests that the members of a list may have. An interest of a revision would change the records of all.
   */
  const marksIn = remembered((list: Thing) => ({
    tags: things.of('segments', list).filter(({ type }) => type === 'static'),
    interests: things
      .of('interest_categories', list)
      .flatMap((category) => things.of('interests', category).filter(({ madeIn }) => madeIn === 0)),
  }));
  const marksOf = ({ parent: list }: Thing) => (list === null ? { tags: [], interests: [] } : marksIn(list));
  const recipientsOf = remembered((list: Thing) =>
    things.first('list_members', ({ parent }) => parent === list),
  );
  const campaignOf = remembered((campaign: Thing) => planCampaign(things, campaign, recipientsOf));
  return { things, slotsOf, membersIn, marksOf, campaignOf };
}

const links = [{ rel: 'self', href: 'https://us10.api.example.test/3.0', method: 'GET' }];

/** The entity with links beside lists and in records, as the third party puts them there. */
function linked(entity: SampleEntity): SampleEntity {
  const withLinks = (record: JsonObject): JsonObject => ({ ...record, _links: links });
  return {
    list: (params) => {
      const listed = entity.list(params);
      const slice: Listing['slice'] = (offset, limit) => listed.slice(offset, limit).map(withLinks);
      return { slice, metadata: { links } };
    },
    get: (params) => {
      const record = entity.get?.(params);
      return record && withLinks(record);
    },
  };
}

const shapes = {
  small: { members: [2300, 900, 430, 57, 1, 0], campaigns: 30, automations: 7, tags: 5, categories: 3 },
  tiny: { members: [23, 0], campaigns: 5, automations: 2, tags: 2, categories: 1 },
  // Nearly all calls go to the members: that is what the size is for.
  members: { members: [0], campaigns: 2, automations: 1, tags: 0, categories: 1 },
};
type Shape = (typeof shapes)['small'];

/** The account before all revisions. Later lists have fewer tags and categories, empty ones none. */
function fillMailing(things: Things, shape: Shape): void {
  const lists = things.fill('lists', shape.members.length, (index) => ({
    createdAt: sampleStart + index * 40 * dayMs,
    type: String(shape.members[index]),
  }));
  const inhabited = lists.filter(({ type }) => type !== '0');
  for (const list of inhabited) {
    fillList(things, list, shape);
    addMembers(things, list, Number(list.type));
  }
  const parentOf = (index: number): Thing | null => inhabited[index % inhabited.length] ?? null;
  things.fill('campaigns', inhabited.length === 0 ? 0 : shape.campaigns, (index) => {
    const seconds = diceFor(things.seed, 3, index).below(86_400);
    return { parent: parentOf(index), createdAt: sampleStart + (250 + index * 9) * dayMs + seconds * 1_000 };
  });
  things.fill('automations', shape.automations, (index) => ({
    parent: parentOf(index),
    createdAt: sampleStart + index * 31 * dayMs,
  }));
}

function fillList(things: Things, list: Thing, shape: Shape): void {
  const { createdAt } = list;
  const tags = sample.texts('tags').slice(0, Math.max(0, shape.tags - list.index));
  const searches = tags.length === 0 ? [] : sample.texts('searches');
  for (const [place, text] of [...tags, ...searches].entries()) {
    const type = place < tags.length ? 'static' : 'saved';
    const index = list.index * 100 + place;
    things.add({ kind: 'segments', index, type, text, parent: list, createdAt: createdAt + place * dayMs });
  }
  const categories = sample.texts('interest_categories').slice(0, Math.max(0, shape.categories - list.index));
  for (const [place, text] of categories.entries()) {
    const index = list.index * 100 + place * 10;
    const parent = things.add({ kind: 'interest_categories', index, text, parent: list, createdAt });
    for (const [at, interest] of sample.texts(text).entries()) {
      things.add({ kind: 'interests', index: index + at, text: interest, parent, createdAt });
    }
  }
}

/** Indexes of the members of a list: they decide all that no revision changes. */
const placesOfList = 2_000_000;
const firstNewPlace = 1_000_000;

/**
 * The first members came with one import: they share one time, more of them than fit into a page where the list is long
 * enough. The others follow in groups of three to a second.
 */
function addMembers(things: Things, list: Thing, count: number): void {
  const imported = Math.min(1_100, Math.floor(count * 0.6));
  const groups = Math.max(1, Math.ceil((count - imported) / 3));
  // A list that a revision adds comes with its members.
  const groupMs = list.madeIn > 0 ? 0 : Math.floor((900 * 86_400) / groups) * 1_000;
  const start = list.createdAt + (list.madeIn > 0 ? 0 : dayMs);
  for (let place = 0; place < count; place += 1) {
    const group = place < imported ? 0 : Math.floor((place - imported) / 3) + 1;
    const editedAt = start + group * groupMs;
    addMember(things, list, place, start + Math.floor((group * groupMs) / 2_000) * 1_000, editedAt);
  }
}

function addMember(things: Things, list: Thing, place: number, createdAt?: number, editedAt?: number): void {
  const index = list.index * placesOfList + place;
  const text = personOf(things.seed, index).email;
  const id = memberId(text);
  const type = statusOf(index);
  things.add({ kind: 'list_members', index, id, text, type, parent: list, createdAt, editedAt });
}

/** One and the same person may be in several lists. */
function personOf(seed: number, member: number) {
  return personAt(seed, Math.floor(member / placesOfList) * 5 + (member % placesOfList));
}

/** MD5 of the lower-case address: what the third party calls the subscriber hash. */
function memberId(email: string): string {
  return hash('md5', email.toLowerCase());
}

const slotCount = 20;
const statuses = (
  'subscribed '.repeat(13) + 'unsubscribed unsubscribed cleaned pending transactional archived subscribed'
).split(' ');

/** Decides status and tags of a member. Revisions bring members without one. */
function slotOf({ index }: Pick<Thing, 'index'>): number | null {
  const [list, place] = [Math.floor(index / placesOfList), index % placesOfList];
  return place < firstNewPlace ? (place * 7 + list) % slotCount : null;
}

function statusOf(index: number): string {
  return statuses[slotOf({ index }) ?? 0] ?? '';
}

/**
 * Every revision edits a campaign, an automation, a search and a category, and adds a campaign, which is sent two
 * revisions later. Lists, automations, segments and categories come and go; an empty list and a sent campaign go and
 * come back.
 */
function reviseMailing(things: Things): void {
  const { revision, day } = things;
  const [first] = things.of('lists');
  if (first === undefined) return;
  reviseMembers(things);
  if (revision % 5 === 4) things.rename(things.turn('lists'));
  const isEmpty = ({ type }: Thing): boolean => type === '0';
  if (revision % 4 === 3) things.take(things.turn('lists', 0, isEmpty), 1);
  things.comeAndGo('lists', () => {
    addMembers(things, things.addNew('lists', null, sample.textAt('events', (revision - 1) / 3)), 5);
  });
  things.rename(things.turn('campaigns'));
  const host = things.turn('lists', 0, (list) => !isEmpty(list)) ?? first;
  const addCampaign = () => things.addNew('campaigns', host, `Weekly letter of ${day}`);
  things.comeAndGo('campaigns', addCampaign);
  if (revision % 3 !== 1) addCampaign();
  if (revision % 5 === 3) things.take(things.first('campaigns', ({ index }) => isOut(index)).at(-1));
  things.edit(things.turn('automations'));
  things.comeAndGo('automations', () => things.addNew('automations', first, ''));
  things.rename(things.turn('segments', 0, ({ type }) => type === 'saved'));
  things.comeAndGo('segments', () => {
    things.addNew('segments', first, `Open house ${day}`, 0, 'static');
    things.addNew('segments', first, `Clicked on ${day}`, 1, 'saved');
  });
  const category = things.turn('interest_categories');
  things.rename(category);
  things.rename(things.of('interests', category)[0]);
  things.comeAndGo('interest_categories', () => {
    const text = `Which event in ${day.split(' ')[1]} suits you?`;
    const added = things.addNew('interest_categories', first, text);
    things.addNew('interests', added, 'Evenings');
    things.addNew('interests', added, 'Weekends', 1);
  });
}

/** Changes of members, in turns. A deleted member comes back two revisions later. */
const fates = ['edited', 'unsubscribed', 'deleted', 'archived', 'edited'];

/** Every revision touches some members of each list, brings one, and moves the one before to the next list. */
function reviseMembers(things: Things): void {
  const { revision } = things;
  const lists = things.first('lists', ({ type }) => Number(type) >= 10);
  for (const [after, list] of lists.toReversed().entries()) {
    const members = things.first('list_members', ({ parent }) => parent === list);
    const gap = members.length < 100 ? 4 : members.length < 500 ? 20 : 100;
    for (let at = revision % gap; at < members.length; at += gap) {
      const fate = fates[(Math.floor(at / gap) + Math.floor(revision / gap)) % fates.length] ?? '';
      touch(things, members[at], fate);
    }
    const newest = things.of('list_members', list).at(-1);
    if (after > 0 && newest?.madeIn === revision - 1 && revision > 1) {
      things.move(newest, lists[lists.length - after]);
    }
    addMember(things, list, firstNewPlace + revision);
  }
}

function touch(things: Things, member: Thing | undefined, fate: string): void {
  if (member === undefined) return;
  if (fate === 'deleted') {
    things.take(member);
    return;
  }
  member.type = fate === 'edited' ? statusOf(member.index) : fate;
  things.edit(member);
}

// --- Records

/** As the email service writes times: `2022-12-27T08:12:59+00:00`. */
function mailingTime(ms: number): string {
  return isoSeconds(ms, '+00:00');
}

/** The record of a thing by the template of that name. */
function recordOf(mailing: Mailing, shown: string, thing: Thing): JsonObject {
  const { id, index, text, type, parent, createdAt, editedAt } = thing;
  const dice = mailing.things.dice(thing, 1);
  const values: Values = {
    id,
    text,
    type,
    number: Number(id),
    list: parent?.id ?? '',
    listName: parent?.text ?? '',
    created: mailingTime(createdAt),
    updated: mailingTime(editedAt),
    place: Math.floor(index / 10) % 10,
    ...moreValues[shown]?.(mailing, thing, dice),
  };
  const base = shown === 'list_members' ? recordOf(mailing, 'people', thing) : {};
  const typed = sample.template(`${shown} ${textOf(values['type'])}`, values, dice);
  return { ...base, ...sample.template(shown, values, dice), ...typed };
}

const moreValues: Readonly<Record<string, (mailing: Mailing, thing: Thing, dice: Dice) => Values>> = {
  people: personValues,
  list_members: memberValues,
  lists: listValues,
  segments: segmentValues,
  interests: interestValues,
  automations: automationValues,
  campaigns: campaignValues,
  reports: campaignValues,
};

/** Members that a form brought have the time of that; imported ones do not. */
function traitsOf({ index, madeIn }: Thing) {
  const place = madeIn > 0 ? 0 : index % placesOfList;
  return { isForm: place % 4 === 1, isVip: place % 50 === 7, isText: place % 10 === 4 };
}

/** Filters and orders of members look at these; times in milliseconds. */
function memberFacts(member: Thing): JsonObject {
  const { type = '', createdAt, editedAt } = member;
  const { isForm, isText } = traitsOf(member);
  return {
    status: type,
    email_type: isText ? 'text' : 'html',
    last_changed: editedAt,
    timestamp_opt: createdAt,
    // Members without a signup time have "", which sorts before every time.
    timestamp_signup: isForm ? createdAt : 0,
  };
}

/** `interest_ids` are separated by commas and must be in the category; `interest_match` is `any` unless it is given. */
function passesFilters({ things, marksOf }: Mailing, member: Thing, params: Params): boolean {
  const { vip_only: isVipOnly, unique_email_id: unique } = params;
  if (isVipOnly === true && !traitsOf(member).isVip) return false;
  if (unique !== undefined && uniqueId(things, member) !== unique) return false;
  const { interest_category_id: category, interest_ids: ids, interest_match: match } = params;
  if (category === undefined && ids === undefined) return true;
  const wanted = typeof ids === 'string' ? ids.split(',').map((id) => id.trim()) : null;
  const asked = marksOf(member).interests.filter(
    ({ id, parent }) =>
      (category === undefined || parent?.id === category) && (wanted === null || wanted.includes(id)),
  );
  if (asked.length === 0) return false;
  const has = asked.map((interest) => isInterested(member, interest));
  return match === 'all' ? has.every(Boolean) : has.some(Boolean) === (match !== 'none');
}

function uniqueId(things: Things, member: Thing): string {
  return things.dice(member, 2).hex(10);
}

/** Every so many-th member has an interest. */
function isInterested({ index, madeIn }: Thing, interest: Thing): boolean {
  return madeIn === 0 && (index % placesOfList) % (2 + (interest.index % 7) * 3) === 0;
}

function memberNamed(things: Things, list: Thing, id: string): Thing | undefined {
  return things.of('list_members', list).find((member) => member.id === id);
}

/** A member as a segment shows it, which does not say which segment it is. */
function personValues({ things, marksOf }: Mailing, member: Thing, dice: Dice): Values {
  const { index, type, createdAt, edits } = member;
  const { isForm, isVip, isText } = traitsOf(member);
  const { interests } = marksOf(member);
  return {
    isVip,
    name: personOf(things.seed, index).name,
    unique: uniqueId(things, member),
    emailType: isText ? 'text' : 'html',
    reason: type === 'unsubscribed' ? 'N/A (Unsubscribed by admin)' : undefined,
    merge: mergeFields(things.seed, member, dice, edits),
    interests: Object.fromEntries(interests.map((one) => [one.id, isInterested(member, one)])),
    signupIp: isForm ? `192.0.2.${index % 256}` : '',
    signedUp: isForm ? mailingTime(createdAt) : '',
    ip: `198.51.100.${index % 256}`,
  };
}

function mergeFields(seed: number, { index }: Thing, dice: Dice, edits: number): JsonObject {
  const { first, last } = personOf(seed, index);
  const phone = edits > 0 ? `555-0${200 + edits}` : dice.chance(30) ? `555-01${10 + dice.below(90)}` : '';
  return sample.template('merge', { first, last, phone, street: 1 + dice.below(300) }, dice);
}

function memberValues({ marksOf, slotsOf }: Mailing, member: Thing): Values {
  const slot = slotOf(member);
  const tags = marksOf(member).tags.filter((tag) => slotsOf(tag).has(slot));
  return {
    webId: 546_000_000 + (member.index % placesOfList),
    source: traitsOf(member).isForm ? 'Embed Form' : 'Import',
    tagCount: tags.length,
    tags: tags.map(({ id, text }) => ({ id: Number(id), name: text })),
  };
}

/** Members of these slots are in a segment. */
function slotsIn(things: Things, segment: Thing): ReadonlySet<number | null> {
  const { type, madeIn, index } = segment;
  if (type === 'saved') return new Set(madeIn > 0 ? [7] : index % 2 === 0 ? [] : [0, 3, 5]);
  const dice = things.dice(segment, 1);
  const slots = Array.from({ length: slotCount }, (_, slot) => slot);
  return new Set(madeIn > 0 ? [] : slots.filter(() => dice.chance(25)));
}

/** Longer than what the API shows of a text when it shortens them. */
const longText = 'Everything that happened since the last letter, in the order in which it happened. '
  .repeat(4)
  .trim();

function listValues({ things, campaignOf }: Mailing, list: Thing, dice: Dice): Values {
  const members = things.of('list_members', list);
  const withStatus = (status: string) => members.filter(({ type }) => type === status);
  const newest = (times: readonly number[]): string =>
    times.length === 0 ? '' : mailingTime(times.reduce((last, time) => Math.max(last, time)));
  const own = things.of('campaigns').filter(({ parent }) => parent === list);
  const unsubscribed = withStatus('unsubscribed');
  const stats = {
    subscribed: withStatus('subscribed').length,
    unsubscribed: unsubscribed.length,
    cleaned: withStatus('cleaned').length,
    contacts: members.length,
    campaigns: own.length,
    sent: newest(own.flatMap((campaign) => campaignOf(campaign).sentAt ?? [])),
    joined: newest(members.map(({ createdAt }) => createdAt)),
    left: newest(unsubscribed.map(({ editedAt }) => editedAt)),
  };
  const reminder = `You are receiving this email because you opted in via our website.${list.index % 2 === 1 ? longText : ''}`;
  return { reminder, stats: sample.template('stats', stats, dice) };
}

function segmentValues({ things, membersIn }: Mailing, segment: Thing, dice: Dice): Values {
  const { id, type = '', editedAt } = segment;
  return {
    members: membersIn(segment).length,
    // Members come, go and change with every revision.
    updated: mailingTime(things.revision > 0 ? things.now : editedAt),
    condition: sample.template(type, { number: Number(id) }, dice),
  };
}

/** `subscriber_count` is a text, as the third party sends it. */
function interestValues({ things }: Mailing, interest: Thing): Values {
  const { parent, index, madeIn } = interest;
  const list = parent?.parent ?? null;
  const members = list === null || madeIn > 0 ? [] : things.of('list_members', list);
  const count = String(members.filter((member) => isInterested(member, interest)).length);
  return { category: parent?.id ?? '', list: list?.id ?? '', count, place: 1 + (index % 10) };
}

/** Revisions start, pause and resume them in turns. The second of every three is a draft until its first turn. */
function automationValues(_: Mailing, { index, edits, madeIn, createdAt }: Thing, dice: Dice): Values {
  const isDraft = madeIn > 0 || (index % 3 === 1 && edits === 0);
  const isSending = (edits + (index % 3 === 0 ? 0 : 1)) % 2 === 0;
  return {
    status: isDraft ? 'save' : isSending ? 'sending' : 'paused',
    // One that was never started has no time, and says so with an empty text.
    started: isDraft ? '' : mailingTime(createdAt + dayMs),
    sent: isDraft ? 0 : 1 + dice.below(4_000) + edits,
    rate: isDraft ? 0 : 1,
  };
}

// --- Campaigns, and what their recipients did

const campaignStatuses = 'sent save sent sent schedule sent sent paused sent sent sending sent'.split(' ');
const campaignTypes = 'regular regular plaintext variate regular rss absplit'.split(' ');

/** Two of three campaigns are sent or being sent before all revisions; the others show every other status. */
function isOut(index: number): boolean {
  return campaignStatuses[index % 12]?.startsWith('sen') === true;
}

type Campaign = ReturnType<typeof planCampaign>;

function planCampaign(things: Things, campaign: Thing, recipientsOf: (list: Thing) => readonly Thing[]) {
  const { id, index, createdAt, madeIn, parent: list } = campaign;
  const { seed, revision } = things;
  const isNew = madeIn > 0;
  /** The revision that sent it; 0: before all. */
  const sentIn = isNew ? madeIn + 2 : 0;
  const isSent = isNew ? revision >= sentIn : isOut(index);
  const first = createdAt + dayMs + diceFor(seed, 4, index).below(7_200) * 1_000;
  const status = isNew ? (isSent ? 'sent' : 'save') : (campaignStatuses[index % 12] ?? '');
  const recipients = list === null ? [] : recipientsOf(list).slice(0, isNew ? 40 : 2_500);
  return {
    id,
    seed,
    index,
    listId: list?.id ?? '',
    sentIn,
    status,
    recipients,
    /** The revisions since it was sent. */
    later: Array.from({ length: Math.max(0, revision - sentIn) }, (_, turn) => sentIn + turn + 1),
    type: isNew ? 'regular' : (campaignTypes[index % 7] ?? ''),
    sentAt: !isSent ? null : isNew ? revisionTime(sentIn) + hourMs : first,
    sent: status === 'sent' ? recipients.length : status === 'sending' ? Math.ceil(recipients.length / 2) : 0,
  };
}

/** Values of a campaign, or of the report of one that has left. */
function campaignValues({ campaignOf }: Mailing, thing: Thing, dice: Dice): Values {
  const campaign = campaignOf(thing);
  const { index, type, status, sent, sentAt, recipients } = campaign;
  const title = thing.text;
  const [openers, clickers] = [Math.ceil(sent * 0.55), Math.ceil(sent * 0.3)];
  const [openRate, clickRate] = [openers, clickers].map((some) => some / Math.max(1, sent));
  const counts = { openers, clickers, opens: 2 * openers, clicks: 2 * clickers, openRate, clickRate };
  const orders = index % 9;
  const written = { subject: title, preview: index % 5 === 3 ? longText : '', from: 'Editor' };
  const summary = sample.template('summary', { ...counts, orders }, dice);
  return {
    title,
    type,
    status,
    sent,
    orders,
    recipients: recipients.length,
    number: 135e5 + index * 17,
    left: leaversOf(campaign).length,
    sentAt: sentAt === null ? '' : mailingTime(sentAt),
    folder: index % 4 === 2 ? `folder${index % 8}` : '',
    isOut: status === 'sent' && type === 'regular',
    delivery: status === 'sending' ? sample.template('delivery', { sent }, dice) : { enabled: false },
    ...counts,
    ...(sentAt === null ? {} : { ...written, replyTo: 'editor@example.test', summary }),
  };
}

interface Action {
  readonly at: number;
  readonly action: 'open' | 'click' | 'bounce';
  readonly url?: string;
  readonly type?: 'hard' | 'soft';
  readonly ip?: string;
}

/** The actions of a recipient, oldest first: none, a bounce, or opens that may each lead to a click. */
function actionsOf(campaign: Campaign, index: number): readonly Action[] {
  const { seed, sentIn, sentAt, later, recipients } = campaign;
  const dice = diceFor(seed, 5, campaign.index, index);
  // Recipients answer a campaign of a revision within the same revision.
  const pace = sentIn === 0 ? 1_000 : 10;
  const ip = `192.0.2.${index % 256}`;
  const url = `https://example.test/offer?n=${index % 3}`;
  let at = (sentAt ?? 0) + dice.below(3_600) * pace;
  const opened = (): readonly Action[] => {
    at += (1 + dice.below(86_400)) * pace;
    const open: Action = { at, action: 'open', ip };
    if (!dice.chance(35)) return [open];
    at += (2 + dice.below(60)) * pace;
    return [open, { at, action: 'click', url, ip }];
  };
  const fate = dice.below(100);
  const opens = fate < 45 ? 0 : 1 + dice.below(3);
  const bounced: Action = { at, action: 'bounce', type: dice.pick(['hard', 'soft']) };
  // Every third revision an open of one recipient, in turns.
  const late = later.filter(
    (turn) => (turn + campaign.index) % 3 === 0 && turn % recipients.length === index,
  );
  return [
    ...(fate >= 40 && fate < 45 ? [bounced] : []),
    ...Array.from({ length: opens }, opened).flat(),
    ...late.map((turn): Action => ({ at: revisionTime(turn) + 3 * hourMs, action: 'open', ip })),
  ];
}

/** One row per recipient, many without any activity. `since` leaves the rows and shortens their arrays. */
function activityListing(campaign: Campaign, { since }: Params): Listing {
  const passes = since === undefined ? () => true : timeTest('since', since);
  return computedListing(campaign.recipients.slice(0, campaign.sent), ({ id, text }, index) => ({
    campaign_id: campaign.id,
    list_id: campaign.listId,
    list_is_active: true,
    email_id: id,
    email_address: text,
    activity: actionsOf(campaign, index)
      .filter(({ at }) => passes(at))
      .map(({ at, action, ...rest }) => ({ action, timestamp: mailingTime(at), ...rest })),
  }));
}

/** Recipients that unsubscribed through a campaign, and when: some within three days, and one with each revision. */
function leaversOf({ recipients, sentAt, later }: Campaign) {
  const early = recipients.filter((_, place) => place % 70 === 7);
  return [
    ...early.map((member, place) => ({ member, at: (sentAt ?? 0) + (1 + place) * 977_000 })),
    ...later.flatMap((turn) => {
      const member = recipients[turn * 2];
      return member === undefined ? [] : [{ member, at: revisionTime(turn) + 4 * hourMs }];
    }),
  ];
}

function leaverListing(campaign: Campaign): Listing {
  const { seed, id, listId: list } = campaign;
  return computedListing(leaversOf(campaign), ({ member, at }) => {
    const dice = diceFor(seed, 9, campaign.index, member.index);
    const merge = mergeFields(seed, member, dice, 0);
    const { isVip } = traitsOf(member);
    const left = mailingTime(at);
    const values = { campaign: id, list, merge, isVip, left, id: member.id, text: member.text };
    return sample.template('leavers', values, dice);
  });
}
