using System;
using static System.Math;
using Map = System.Collections.Generic.Dictionary<string, int>;

namespace Shop.Orders
{
    /// <summary>An order.</summary>
    [Serializable]
    public abstract class Order<T> : Entity<T>, IPriced where T : struct
    {
        public const int Limit = 10;
        private static readonly string Prefix = "o-";
        protected int count, total;

        public string Name { get; private set; } = Prefix;
        public event EventHandler Changed;

        protected Order(int id) : base(id)
        {
            this.count = id;
            Name = Prefix + id;
        }

        public static Order<T> operator +(Order<T> left, Order<T> right) => left;

        /// <summary>Adds lines.</summary>
        internal virtual async Task<U> AddAsync<U>(U line, params Line[] more)
        {
            var lines = new List<U> { line };
            lines.Add(line);
            foreach (var one in more)
            {
                count += Max(one.Price, Limit);
            }
            Changed?.Invoke(this);
            int Twice(int x) => x * 2;
            return await Store.SaveAsync<U>(lines, Twice(count)) as U;
        }

        abstract void Ship();
    }

    interface IPriced : IComparable
    {
        decimal Price { get; }
        void Round(int digits);
    }

    public enum State { Open, Paid = 2 }

    public record Line(string Sku, decimal Price);

    public delegate void Handler(Order<int> order);
}
