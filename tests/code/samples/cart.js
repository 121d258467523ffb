// What a shop sells.
import pricing, { tax as addTax, round } from "./pricing";
import * as log from "../log.js";
const fs = require("fs");
const { join, resolve: absolute } = require("path");
export * from "./currency";

/** Highest number of items. */
export const LIMIT = 100;
let counter = 0, last;

/**
 * A cart of items.
 */
export class Cart extends pricing.Base {
  static #instances = 0;
  items = [];

  constructor(owner, { currency = "EUR", locale: place } = {}) {
    super(owner);
    this.owner = owner;
    this.currency = currency;
    this.add = this.add.bind(this);
    Cart.#instances++;
    log.info(place);
  }

  /** How many there are. */
  get size() {
    return this.items.length;
  }

  add(item, ...more) {
    for (const one of [item, ...more]) {
      this.items.push(one);
      counter += 1;
    }
    last = item;
    return round(addTax(this.size));
  }
}

function total(cart) {
  const sum = cart.items.reduce((all, { price }) => all + price, 0);
  function inner() {
    return sum;
  }
  return inner();
}

const format = async (value) => `${value} ${total(value)}`;

export const handlers = {
  open() {
    return new Cart("x");
  },
  close: function () {},
  retry: 3,
};

Cart.prototype.clear = function () {
  this.items = [];
};

export default format;
export { total, counter as count };
const view = <Table rows={handlers}><td>{last}</td></Table>;
